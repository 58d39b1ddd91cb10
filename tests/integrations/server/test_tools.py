"""Programs that people use: lm-evaluation-harness, curl, and generated requests by the schema."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from knnlm import KNNLM
from tests.conftest import prose
from tests.integrations.server.asking import ask
from tests.integrations.test_lm_eval import KINDS, TASK

pytestmark = pytest.mark.pipeline
REQUESTS = 60  # for each operation; benchmarks/generated_requests.py sends thousands


def test_lm_eval_gives_the_numbers_of_our_own_harness(
    url: str, server_store: Path, knnlm_model: KNNLM, tmp_path: Path
) -> None:
    """With the tokenizer as a datastore reads: its texts begin with bos."""
    knnlm_model.tokenizer.save_pretrained(tmp_path / "tokenizer")
    rows = [{"text": prose(seed, 2)[:60].strip()} for seed in range(50, 54)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    kind, more = KINDS["choice"]
    task = TASK.format(name="choice", data=tmp_path / "data.jsonl", kind=kind, more=more)
    (tmp_path / "choice.yaml").write_text(task)
    scored = {}
    for name, model, arguments in (
        ("server", "local-completions", _remote(url, tmp_path / "tokenizer")),
        ("own", "knnlm", f"store={server_store},lambda=0.4"),
    ):
        out = tmp_path / name
        words = ["--model", model, "--model_args", arguments, "--tasks", "choice"]
        words += ["--include_path", str(tmp_path), "--output_path", str(out), "--log_samples"]
        program = "knnlm.cli.lm_eval" if model == "knnlm" else "lm_eval"
        done = subprocess.run(
            [sys.executable, "-m", program, *words], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        (samples,) = out.rglob("samples_*.jsonl")
        lines = [json.loads(line) for line in samples.read_text().splitlines()]
        scored[name] = [float(response[0][0]) for line in lines for response in line["resps"]]
    assert len(scored["own"]) == 8
    assert scored["server"] == pytest.approx(scored["own"], abs=1e-4)


def _remote(url: str, tokenizer: Path) -> str:
    return (
        f"model=tiny,base_url={url}/v1/completions,tokenizer={tokenizer},num_concurrent=1,"
        "tokenized_requests=True,max_length=128,add_bos_token=True"
    )


def test_the_program_of_the_guide_runs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "serve.md").read_text()
    program = re.search(r"<!-- example: run by tests -->\n```python\n(.*?)```", guide, re.DOTALL)
    assert program
    here = program[1].replace("http://127.0.0.1:8017", url).replace('"store"', '"tiny"')
    exec(compile(here, "serve.md", "exec"), {})
    assert re.search(
        r"^-[\d.]+ \['\d\d\.txt', '\d\d\.txt'\]$", capsys.readouterr().out, re.MULTILINE
    )


def test_the_curl_line_of_the_guide_runs(url: str) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "serve.md").read_text()
    line = re.search(r"<!-- curl: run by tests -->\n```bash\n(.*?)```", guide, re.DOTALL)
    assert line
    here = line[1].replace("http://127.0.0.1:8017", url)
    shown = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=True)
    token = json.loads(shown.stdout)["tokens"][0]
    fields = re.findall(r"^\| (`.*?) \|", guide[line.end() : line.end() + 1500], re.MULTILINE)
    named = {name for cell in fields for name in re.findall(r"`(\w+)`", cell)}
    assert {"lm_logprob", "rank", "neighbors"} <= named <= set(token)


def test_curl_streams(url: str) -> None:
    body = json.dumps({"prompt": "the cat", "max_tokens": 4, "stream": True})
    command_line = ["curl", "-sN", f"{url}/v1/completions", "-H", "content-type: application/json"]
    shown = subprocess.run([*command_line, "-d", body], capture_output=True, text=True, check=True)
    events = [line for line in shown.stdout.splitlines() if line]
    assert events[-1] == "data: [DONE]"
    assert all(line.startswith("data: {") for line in events[:-1])


def test_the_schema_is_complete(url: str) -> None:
    schema = ask(url, "/openapi.json").json
    assert set(schema["paths"]) == {
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/models",
        "/v1/models/{name}",
        "/api/score",
        "/api/entries",
        "/api/info",
        "/healthz",
        "/metrics",
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            assert "422" not in operation["responses"], path
            assert operation["responses"]["200"]["content"], path
            assert operation.get("description") or operation.get("summary"), path
    fields = schema["components"]["schemas"]["CompletionRequest"]["properties"]
    assert {"prompt", "knn", "logprobs", "echo", "stop", "seed", "n"} <= set(fields)


def test_generated_requests_break_nothing(url: str) -> None:
    schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
    statuses = Counter[int]()
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=REQUESTS,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def one(case: Any) -> None:
            response = case.call(timeout=60)
            statuses[response.status_code] += 1
            assert response.status_code < 500 or response.status_code == 503, case.body
            checks = [
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ]
            case.validate_response(response, checks=checks)

        one()
    assert statuses[200] > REQUESTS // 2
