"""What the README shows really runs, from an empty folder, and what it says is so."""

import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs import findings_page
from docs.write import WRITTEN, Numbers, clusters_lose_half, disk, written

from knnlm.cli.main import run
from knnlm.datastore.table import ColumnType
from knnlm.models.load import LanguageModel, load_model
from knnlm_paper.conditions import KNN
from knnlm_paper.results import Results
from knnlm_paper.retrieval import paper_retrieval
from tests.conftest import prose

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
MODEL = "HuggingFaceTB/SmolLM2-135M"


def block(marker: str) -> str:
    match = re.search(rf"<!-- {marker}: run by tests -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert match, marker
    return match[1]


@pytest.fixture
def documents(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder `docs` of many files, and a tiny model instead of the one on the hub."""
    (tmp_path / "docs").mkdir()
    for number in range(40):
        (tmp_path / "docs" / f"{number}.txt").write_text(prose(number, 60))

    def load_tiny(name: str, **options: object) -> LanguageModel:
        assert name in (MODEL, str(tiny_model))
        return load_model(tiny_model)

    monkeypatch.setattr("knnlm.api.datastore.load_model", load_tiny)
    monkeypatch.setattr("knnlm.api.choices.load_model", load_tiny)
    monkeypatch.chdir(tmp_path)


@pytest.mark.pipeline
@pytest.mark.usefixtures("documents")
def test_the_commands_run_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [shlex.split(line) for line in block("commands").splitlines()]
    assert len(commands) == 4
    for words in commands:
        assert words[0] == "knnlm"
        assert run(words[1:]) == 0, capsys.readouterr().err


@pytest.mark.pipeline
@pytest.mark.usefixtures("documents")
def test_the_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("example"), "README.md", "exec"), {})
    output = capsys.readouterr().out
    assert re.search(r"calibrated LM +[\d,.]+  [−+]?[\d.]+", output)
    assert re.search(r"P [\d.]+ +LM [\d.]+ +kNN [\d.]+", output)
    assert re.search(r"\(\d+\.txt\)", output)


@pytest.fixture(scope="module")
def numbers() -> Numbers:
    return Numbers(Results.open(ROOT / "docs" / "results" / "laptop"))


@pytest.mark.parametrize("name", WRITTEN)
def test_written_documents_are_what_templates_and_records_say(name: str, numbers: Numbers) -> None:
    assert written(name, numbers) == WRITTEN[name].read_text(), "run 'make docs'"


def test_a_sentence_does_not_outlive_its_finding(numbers: Numbers) -> None:
    with pytest.raises(ValueError, match="relies on 'att-beats-ffn@own-tau': holds, but it is"):
        numbers.holds("att-beats-ffn@own-tau")
    with pytest.raises(ValueError, match="relies on behind of knn-helps@own-tau, which is not so"):
        numbers.check("behind", "knn-helps@own-tau")
    with pytest.raises(ValueError, match="alone being ahead"):
        numbers.only_ahead("over_calibrated", "main", 100)
    with pytest.raises(ValueError, match="relies on neighbors gaining most in overfitted"):
        numbers.more_than_calibration("overfitted", 2000)
    with pytest.raises(ValueError, match="less than half of the gain of stories15M"):
        clusters_lose_half("stories15M")
    with pytest.raises(Exception, match="did you mean 'att-beats-ffn@own-tau'"):
        numbers.per_token("att-beat-ffn@own-tau")


def with_lead(results: Results, condition: KNN, point: str, share: float) -> Results:
    """The same results, but for one condition whose perplexity at a point is lower."""
    record = results.record(condition)
    documents = record.measurement.documents
    sums = documents.log_likelihood[point]
    better = [s - np.log1p(-share) * n for s, n in zip(sums, documents.tokens, strict=True)]
    changed = replace(
        documents, log_likelihood={**documents.log_likelihood, point: tuple(map(float, better))}
    )
    measurement = replace(record.measurement, documents=changed)
    records = {**results.records, condition.name: replace(record, measurement=measurement)}
    return Results(results.scale, records)


def index(results: Results, factory: str, nprobe: int) -> KNN:
    return KNN(replace(paper_retrieval(results.scale), factory=factory, nprobe=nprobe))


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize(
    ("condition", "point"),
    [
        (lambda r: index(r, "PQ64np", 1), "own_tau"),
        (lambda r: index(r, "IVF512,Flat", 16), "own_tau"),
        (lambda r: KNN(paper_retrieval(r.scale, "width-64")), "own_tau"),
        (lambda r: KNN(paper_retrieval(r.scale)), "own_tau"),
    ],
)
def test_documents_are_not_written_from_results_that_say_otherwise(
    name: str, condition: Callable[[Results], KNN], point: str, numbers: Numbers
) -> None:
    """A lead of 5 % for one further index, for one LM's index, or for att."""
    ahead = with_lead(numbers.results, condition(numbers.results), point, 0.05)
    with pytest.raises(ValueError, match="the text relies on"):
        written(name, Numbers(ahead))


@pytest.mark.parametrize("lm", ["main", "seed-1"])
def test_att_losing_its_lead_at_one_temperature_is_noticed(lm: str, numbers: Numbers) -> None:
    """It may be cited that the lead depends on the temperature, so there must be one."""
    ffn = KNN(replace(paper_retrieval(numbers.results.scale, lm), state="ffn"))
    reversed_lead = with_lead(numbers.results, ffn, "one_tau", 0.2)
    with pytest.raises(ValueError, match="relies on 'att-beats-ffn@one-tau': holds"):
        written("why.md", Numbers(reversed_lead))


def prose_of(text: str) -> str:
    """A document without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("name", "most"), [("README.md", 900), ("why.md", 1200)])
def test_documents_are_short(name: str, most: int) -> None:
    assert len(prose_of(WRITTEN[name].read_text()).split()) <= most


@pytest.mark.parametrize("name", WRITTEN)
def test_no_sentence_has_more_than_three_numbers(name: str) -> None:
    text = prose_of(WRITTEN[name].read_text())
    text = re.sub(r"\]\([^)]*\)|^\|.*$|<[^>]*>", "", text, flags=re.MULTILINE)
    for sentence in re.split(r"(?<=[.:;])\s", text):
        assert len(re.findall(r"(?<![\w-])[−+]?\d[\d,.]*", sentence)) <= 3, sentence


def test_the_explorers_findings_are_those_of_why() -> None:
    assert (findings_page.EXPLORER / "findings.html").read_text() == findings_page.page()
    copies = sorted((findings_page.EXPLORER / "figures").iterdir())
    assert [copy.name for copy in copies] == sorted(f.name for f in findings_page.figures())
    for figure in findings_page.figures():
        assert (
            findings_page.EXPLORER / "figures" / figure.name
        ).read_bytes() == figure.read_bytes()


def test_the_explorers_findings_name_files_as_the_repository_does() -> None:
    """The page is served without them: a name that is no link has to say where the file is."""
    files = re.findall(r"[\w/.-]+\.(?:md|csv|py|yaml)\b", prose_of(findings_page.page()))
    assert len(files) >= 2
    for name in files:
        assert (ROOT / name).is_file(), name


def test_the_examples_of_the_explorer_are_what_the_equation_gives() -> None:
    """The picture shows the first of them."""
    file = ROOT / "src/knnlm/integrations/explorer/examples.js"
    text = file.read_text().removeprefix("const EXAMPLES = ").removesuffix(";\n")
    examples: dict[str, Any] = json.loads(text)
    assert "<" not in text
    for example in examples["examples"]:
        lam = example["answer"]["settings"]["lambda"]
        for token in example["answer"]["tokens"]:
            lm, mixed = math.exp(token["lm_logprob"]), math.exp(token["logprob"])
            knn = 0 if token["component_logprob"] is None else math.exp(token["component_logprob"])
            assert mixed == pytest.approx((1 - lam) * lm + lam * knn, rel=1e-3)
    assert file.stat().st_size < 700_000


def test_disk_is_what_the_columns_of_an_entry_take() -> None:
    columns = [ColumnType("<f2", 576), ColumnType("<f2", 576), *[ColumnType("<i4", 0)] * 3]
    size = sum(np.dtype(c.dtype).itemsize * max(1, c.width) for c in columns)
    assert disk(576) == f"{size / 1000:.1f} GB"


def test_links_lead_somewhere() -> None:
    for file in WRITTEN.values():
        for link in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"#]+)", file.read_text()):
            assert link.startswith("https://") or (file.parent / link).exists(), link


def test_reading_results_and_writing_documents_need_no_model_library() -> None:
    code = (
        "import sys; from docs.write import written; written('why.md'); "
        "print([m for m in ('torch', 'transformers', 'faiss', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
