"""What the documents say is so, and their commands run."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knnlm.cli.main import run
from knnlm.hidden_states import FAMILIES
from knnlm.report.document import Table
from knnlm.report.markdown import table
from knnlm.report.records import adapt_sizes_table, adapt_table, clusters_table
from knnlm.text.tokenizer import train_tokenizer
from tests.conftest import prose
from tests.hidden_states import models
from tests.models.gguf_file import write_gguf

DOCS = Path(__file__).parent.parent / "docs"
GUIDE = (DOCS / "adapt.md").read_text()


def test_every_family_is_documented() -> None:
    text = (DOCS / "models.md").read_text()
    assert [name for name in FAMILIES if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("tabulate", [adapt_table, adapt_sizes_table])
def test_the_guides_tables_are_what_the_record_says(tabulate: Callable[[Any], Table]) -> None:
    assert table(tabulate(json.loads((DOCS / "results" / "adapt.json").read_text()))) in GUIDE


def test_the_output_that_the_guide_shows_is_the_records() -> None:
    run_of_guide = json.loads((DOCS / "results" / "adapt.json").read_text())["SmolLM2, Django"]
    for line, field in (
        ("base LM", "base_ppl"),
        ("base LM with kNN", "interp_ppl"),
        ("calibrated LM", "calibrated_ppl"),
        ("calibrated LM with kNN", "calibrated_interp_ppl"),
        ("oracle", "oracle_ppl"),
    ):
        assert re.search(rf"^  {line} +{run_of_guide[field]:.2f}\b", GUIDE, re.MULTILINE), line
    assert f"{run_of_guide['tokens']:,} tokens; perplexity per token" in GUIDE


def test_the_guides_clusters_are_what_the_record_says() -> None:
    assert (
        table(clusters_table(json.loads((DOCS / "results" / "clusters.json").read_text()))) in GUIDE
    )


def test_the_benchmarks_page_is_what_the_records_say() -> None:
    script = DOCS.parent / "benchmarks" / "page.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0


def test_the_servers_numbers_are_what_the_record_says() -> None:
    guide = " ".join((DOCS / "serve.md").read_text().split())
    measured = json.loads((DOCS / "results" / "server.json").read_text())
    load = measured["load"]
    assert f"{load['clients']} clients" in guide
    assert f"{load['tokens_per_second']:,.0f} tokens a second" in guide
    assert f"within {load['p50']:.1f} s and 99 % within {load['p99']:.1f} s" in guide
    assert f"{1 / measured['throughput_ratio']:.2f} times as many" in guide
    exact = json.loads((DOCS / "results" / "server_exact.json").read_text())
    assert f"it wrote {1 / exact['throughput_ratio']:.2f} times as many" in guide
    assert set(load["statuses"]) == {"200"}
    assert set(measured["overload"]["statuses"]) == {"200", "429"}


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with what the guide names, in small: a GGUF file and a folder of documents."""
    tokenizer = train_tokenizer([prose(0, 400)], models.VOCABULARY)
    write_gguf(
        tmp_path / "smollm2.gguf", models.make("Llama", max_position_embeddings=512), tokenizer
    )
    (tmp_path / "docs").mkdir()
    for number in range(40):
        (tmp_path / "docs" / f"{number}.txt").write_text(prose(number, 60))
    (tmp_path / "docs" / "db").mkdir()
    (tmp_path / "docs" / "db" / "queries.txt").write_text(prose(40, 60))
    (tmp_path / "new-chapter.txt").write_text(prose(41, 60))
    monkeypatch.chdir(tmp_path)


@pytest.mark.pipeline
@pytest.mark.usefixtures("stand_ins")
def test_the_guides_commands_run_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"<!-- commands: run by tests -->\n```bash\n(.*?)```", GUIDE, re.DOTALL)
    commands: list[Any] = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(commands) == 8
    for words in commands:
        assert words[0] == "knnlm"
        assert run(words[1:]) == 0, capsys.readouterr().err


@pytest.mark.pipeline
def test_the_commands_of_reproduce_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "reproduce.md").read_text()
    block = re.search(r"<!-- commands: run by tests -->\n```bash\n(.*?)```", text, re.DOTALL)
    assert block
    commands = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    assert len(commands) == 3
    for words in commands:
        assert run(words[1:]) == 0, capsys.readouterr().err
    assert (tmp_path / "smoke" / "RESULTS.md").is_file()
