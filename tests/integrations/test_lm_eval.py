"""lm-evaluation-harness on local tasks, against the model's own numbers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import knnlm.cli.lm_eval as command
from knnlm import KNNLM
from knnlm.integrations import lm_eval as harness
from tests.conftest import prose

pytestmark = pytest.mark.pipeline

TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
output_type: {kind}
{more}
"""
KINDS = {
    "rolling": (
        "loglikelihood_rolling",
        'doc_to_text: ""\ndoc_to_target: "{{text}}"\nmetric_list:\n  - metric: word_perplexity',
    ),
    "choice": (
        "multiple_choice",
        'doc_to_text: "{{text}}"\ndoc_to_choice: ["cat", "dogs"]\ndoc_to_target: 0\n'
        "metric_list:\n  - metric: acc",
    ),
    "writing": (
        "generate_until",
        'doc_to_text: "{{text}}"\ndoc_to_target: "x"\nmetric_list:\n  - metric: exact_match\n'
        'generation_kwargs: {until: ["@"], max_gen_toks: 5, do_sample: false}',
    ),
}


@pytest.fixture(scope="module")
def store(tuned_store: Path) -> Path:
    return tuned_store


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    rows = [{"text": prose(seed, 1)[:30].strip()} for seed in (50, 51)]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, (kind, more) in KINDS.items():
        task = TASK.format(name=name, data=folder / "data.jsonl", kind=kind, more=more)
        (folder / f"{name}.yaml").write_text(task)
    return folder


@pytest.fixture(scope="module")
def samples(
    store: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """What the command line of lm-eval wrote, sample by sample."""
    out = tmp_path_factory.mktemp("out")
    command = [
        sys.executable,
        "-m",
        "knnlm.cli.lm_eval",
        "--model",
        "knnlm",
        "--model_args",
        f"store={store}",
        "--tasks",
        ",".join(KINDS),
        "--include_path",
        str(tasks),
        "--log_samples",
        "--output_path",
        str(out),
        "--device",
        "cpu",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {}
    for name in KINDS:
        (file,) = out.rglob(f"samples_{name}_*.jsonl")
        found[name] = [json.loads(line) for line in file.read_text().splitlines()]
    return found


def own(store: Path, context: list[int], tokens: list[int]) -> float:
    """log P of `tokens` after `context`, from the model itself."""
    model = KNNLM(store).to_transformers()
    return float(model.score_tokens(torch.tensor([*context, *tokens]), len(context)).mixed.sum())


def test_log_likelihoods_are_the_models_own(
    store: Path, samples: dict[str, list[dict[str, Any]]]
) -> None:
    tokenizer = KNNLM(store).tokenizer
    for sample in samples["rolling"]:
        tokens = tokenizer(sample["doc"]["text"]).input_ids
        wanted = own(store, [tokenizer.bos_token_id], tokens)
        found = sample["filtered_resps"][0]
        assert float(found[0] if isinstance(found, list) else found) == pytest.approx(
            wanted, abs=1e-3
        )
    for sample in samples["choice"]:
        context = tokenizer(sample["doc"]["text"]).input_ids
        for word, response in zip(["cat", "dogs"], sample["resps"], strict=True):
            whole = tokenizer(f"{sample['doc']['text']} {word}").input_ids
            wanted = own(store, context, whole[len(context) :])
            assert float(response[0][0]) == pytest.approx(wanted, abs=1e-3)


def test_generations_are_the_models_own(
    store: Path, samples: dict[str, list[dict[str, Any]]]
) -> None:
    knnlm = KNNLM(store)
    model, tokenizer = knnlm.to_transformers(), knnlm.tokenizer
    for sample in samples["writing"]:
        prompt = tokenizer(sample["doc"]["text"], return_tensors="pt")
        ids = model.generate(**prompt, max_new_tokens=5, do_sample=False, pad_token_id=0)
        wanted = tokenizer.decode(ids[0, prompt.input_ids.shape[1] :], skip_special_tokens=True)
        assert sample["resps"][0][0] == wanted


def test_a_datastore_that_is_not_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "lm_eval.__main__.cli_evaluate", lambda: harness.KNNLMHarness(store=str(tmp_path / "no"))
    )
    with pytest.raises(SystemExit, match="1"):
        command.main()
    assert capsys.readouterr().err.startswith("knnlm: there is no datastore")


def test_errors_name_the_arguments_of_lm_eval(
    tuned_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "lm_eval.__main__.cli_evaluate",
        lambda: harness.KNNLMHarness(store=str(tuned_store), metric="ip"),
    )
    with pytest.raises(SystemExit, match="1"):
        command.main()
    assert capsys.readouterr().err.endswith("first, or give lambda and tau\n")
