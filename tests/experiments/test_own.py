"""An experiment of one's own: the page that shows one is run as it stands."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from knnlm import Folder
from knnlm.errors import KnnlmError, UsageError
from knnlm.experiments import SearchSpec, Texts, load_records, run_experiment
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import train_tokenizer
from tests.conftest import prose as prose_of
from tests.experiments.coverage import KINDS, Coverage
from tests.hidden_states import models
from tests.models.gguf_file import write_gguf

NUMBER = r"[−+][\d.]+"
PAGE = (Path(__file__).parents[2] / "docs" / "experiment.md").read_text()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "docs"
    folder.mkdir()
    for number in range(80):
        (folder / f"{number}.txt").write_text(prose_of(number, 12))
    return folder


@pytest.mark.pipeline
def test_the_page_runs_as_it_stands(documents: Path) -> None:
    program = re.search(r"<!-- example: run by tests -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert program
    folder = documents.parent
    tokenizer = train_tokenizer([prose_of(0, 400)], models.VOCABULARY)
    write_gguf(folder / "smollm2.gguf", models.make("Llama"), tokenizer)
    (folder / "votes.py").write_text(program[1])
    command = [sys.executable, "votes.py"]
    first = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    for shown in (
        r"^LM [\d.]+, equal votes [\d.]+, by similarity [\d.]+$",
        rf"^change from equal votes to votes by similarity: {NUMBER} % \({NUMBER} to {NUMBER} %\)$",
        r"^votes by similarity are better: (holds|does not hold|undecided)$",
    ):
        assert re.search(shown, first.stdout, re.MULTILINE), first.stdout
        assert re.search(shown, PAGE, re.MULTILINE), shown  # and what the page shows has this form
    record = folder / "do-distances-matter" / "records" / "equal-votes-64.json"
    assert '"command": "python votes.py"' in record.read_text()
    written = record.stat().st_mtime_ns
    again = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert again.stdout == first.stdout
    assert record.stat().st_mtime_ns == written


def test_the_page_gives_no_vote_to_a_neighbor_that_is_missing() -> None:
    """Its id is −1; the last entry has nothing to do with it."""
    program = re.search(r"<!-- example: run by tests -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert program
    module = ModuleType("votes")
    exec(program[1], vars(module))
    data = SimpleNamespace(
        store=SimpleNamespace(targets=np.array([5, 6, 7])),
        queries=lambda _: SimpleNamespace(count=3, targets=np.array([7, 5, 7])),
    )
    ids = np.array([[0, 2, -1, -1], [0, 1, -1, -1], [0, -1, -1, -1]])
    near = SimpleNamespace(read=lambda start, stop: SimpleNamespace(ids=ids[start:stop]))
    workspace = SimpleNamespace(data=lambda _: data, neighbors=lambda *_: near)
    votes = module.Votes(k=4, equal=True).equal_votes(workspace, "test")
    np.testing.assert_allclose(np.exp(votes), [0.5, 0.5, 0.0])


def test_measurements_come_in_the_order_of_their_conditions(
    tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    conditions = [Coverage(16), Coverage(4)]
    many, few = run_experiment(conditions, model=tiny_model, text=prose, out=tmp_path / "out")
    assert many.test > few.test
    records = load_records(tmp_path / "out", KINDS)
    assert records["coverage-att-16"].measurement == many
    assert records["coverage-att-16"].scale == "own"


def test_documents_that_are_stored_are_left_out(documents: Path, tiny_model: Path) -> None:
    """A copy would retrieve itself."""
    folder, out = documents.parent / "with-copies", documents.parent / "copies"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.txt").write_text(prose_of(number % 50, 12))
    text = Folder(folder, split=(60, 20, 20))
    run_experiment([Coverage(4)], model=tiny_model, text=text, out=out)
    read = [
        len(json.loads(file.read_text()))
        for part in ("valid", "test")
        for file in sorted((out / "work" / "states" / "main" / part).glob("**/documents.json"))
    ]
    assert read
    assert 14 <= sum(read) < 24


@pytest.mark.parametrize("text", ["train.txt", ("train.txt", "more.txt")])
def test_a_text_without_parts_is_refused(tmp_path: Path, text: object, tiny_model: Path) -> None:
    with pytest.raises(UsageError, match=r"has no parts .* divide it with `Folder"):
        run_experiment([Coverage(4)], model=tiny_model, text=text, out=tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_all_records_are_read_without_the_lm_and_its_work(
    tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    model, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(tiny_model, model)
    first = run_experiment([Coverage(4)], model=model, text=prose, out=out)
    shutil.rmtree(out / "work")
    shutil.rmtree(model)
    assert run_experiment([Coverage(4)], model=model, text=prose, out=out) == first
    assert not (out / "work").exists()


def test_a_mistyped_model_claims_nothing(tmp_path: Path, prose: Texts, tiny_model: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KnnlmError, match="modle"):
        run_experiment([Coverage(4)], model=tmp_path / "modle", text=prose, out=out)
    assert not out.exists()
    run_experiment([Coverage(4)], model=tiny_model, text=prose, out=out)


def test_a_call_that_measured_nothing_may_be_corrected(
    tmp_path: Path, prose: Texts, texts: dict[str, Path], tiny_model: Path
) -> None:
    """Even where it began to work: a test text that is stored is refused after storing."""
    out, wrong = tmp_path / "out", prose._replace(test=prose.train)
    with pytest.raises(UsageError, match="is in the datastore"):
        run_experiment([Coverage(4)], model=tiny_model, text=wrong, out=out)
    run_experiment([Coverage(4)], model=tiny_model, text=prose, out=out)
    other = tmp_path / "other"
    stored = prose._replace(train=Files((texts["train"], texts["valid"])))
    with pytest.raises(UsageError, match="is in the datastore"):
        run_experiment([Coverage(4)], model=tiny_model, text=stored, out=other)
    with pytest.raises(KnnlmError, match="was made from something else .* delete that one"):
        run_experiment([Coverage(4)], model=tiny_model, text=prose, out=other)
    shutil.rmtree(other / "work")
    run_experiment([Coverage(4)], model=tiny_model, text=prose, out=other)


def test_a_record_of_another_search_is_not_returned(
    tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    out, other = tmp_path / "out", Coverage(4, SearchSpec(metric="ip"))
    run_experiment([Coverage(4)], model=tiny_model, text=prose, out=out)
    with pytest.raises(UsageError, match=r"another condition called coverage-att-4 \(spec.metric"):
        run_experiment([other], model=tiny_model, text=prose, out=out)


def test_a_folder_of_documents_is_left_as_it_was(documents: Path) -> None:
    text = Folder(documents, split=(60, 20, 20))
    before = sorted(documents.iterdir())
    with pytest.raises(KnnlmError, match=r"is not empty \(0.txt …\): choose another `out`"):
        run_experiment([Coverage(4)], model="not opened", text=text, out=documents)
    assert sorted(documents.iterdir()) == before


def test_a_folder_of_another_text_is_refused(
    tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    out = tmp_path / "out"
    run_experiment([Coverage(4)], model=tiny_model, text=prose, out=out)
    other = prose._replace(test=prose.valid)
    with pytest.raises(KnnlmError, match="holds results of another text: choose another `out`"):
        run_experiment([Coverage(4)], model=tiny_model, text=other, out=out)
