"""A results folder belongs to one experiment; a record that was changed in any way is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import DamagedError, KnnlmError
from knnlm.experiments import BaseLM, ExistingLM, ResultsFolder, Texts, load_records
from knnlm.experiments.provenance import Provenance, UsedLM
from knnlm.experiments.records import Claim, Record, make_claim, read_claim
from knnlm.files import write_json
from knnlm.models.presets import SMOKE
from tests.experiments.coverage import KINDS, Coverage, CoverageMeasurement

LMS: list[BaseLM | ExistingLM] = [
    BaseLM("main", SMOKE),
    ExistingLM("gpt2", "openai-community/gpt2"),
]


@pytest.fixture
def claim(prose: Texts) -> Claim:
    return make_claim("prose", prose, LMS)


@pytest.fixture
def folder(tmp_path: Path, claim: Claim) -> Path:
    """A folder that is claimed."""
    with ResultsFolder(tmp_path / "out").claimed(claim):
        pass
    return tmp_path / "out"


def refused(folder: Path, claim: Claim) -> str:
    """The sentence with which another claim is refused; the folder's own stays."""
    before = read_claim(folder)
    with pytest.raises(KnnlmError) as error, ResultsFolder(folder).claimed(claim):
        pass
    assert read_claim(folder) == before
    return str(error.value)


def test_a_folder_may_be_claimed_again_by_the_same_experiment(folder: Path, claim: Claim) -> None:
    with ResultsFolder(folder).claimed(claim):
        assert read_claim(folder) == claim


def test_another_scale_is_refused(folder: Path, claim: Claim) -> None:
    sentence = refused(folder, claim._replace(scale="verse"))
    assert "holds results of scale prose, not verse: choose another" in sentence


def test_another_text_is_refused(folder: Path, prose: Texts) -> None:
    exchanged = prose._replace(valid=prose.test, test=prose.valid)
    assert "holds results of another text" in refused(folder, make_claim("prose", exchanged, LMS))


def test_other_queries_of_the_text_are_refused(folder: Path, prose: Texts) -> None:
    claim = make_claim("prose", prose, LMS, queries=10)
    assert "holds results of another text" in refused(folder, claim)


@pytest.mark.parametrize(
    "other",
    [
        BaseLM("main", replace(SMOKE, lr=1e-3)),
        BaseLM("main", SMOKE, seed=1),
        ExistingLM("gpt2", "somebody/gpt2"),
    ],
)
def test_another_lm_of_a_known_name_is_refused(
    other: BaseLM | ExistingLM, folder: Path, prose: Texts
) -> None:
    sentence = refused(folder, make_claim("prose", prose, [other]))
    assert f"holds results of another LM called {other.name}" in sentence


def test_further_lms_may_join(folder: Path, prose: Texts, claim: Claim) -> None:
    further: list[BaseLM | ExistingLM] = [
        BaseLM("seed-1", SMOKE, seed=1),
        ExistingLM("distilgpt2", "distilgpt2"),
    ]
    with ResultsFolder(folder).claimed(make_claim("prose", prose, further)):
        joined = read_claim(folder)
    assert joined.lms.keys() == {"main", "seed-1"}
    assert joined.others == {"gpt2": "openai-community/gpt2", "distilgpt2": "distilgpt2"}
    assert joined.lms["main"] == claim.lms["main"]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, claim: Claim) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with (
        pytest.raises(KnnlmError, match=r"is not empty \(thesis.tex …\)"),
        ResultsFolder(tmp_path).claimed(claim),
    ):
        pass
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != ".lock") == ["thesis.tex"]


def test_an_experiments_own_files_are_no_other_things(tmp_path: Path, claim: Claim) -> None:
    (tmp_path / "model").mkdir()
    with ResultsFolder(tmp_path, own_names=("work", "model")).claimed(claim):
        assert read_claim(tmp_path) == claim


def test_two_processes_do_not_share_a_folder(folder: Path, claim: Claim) -> None:
    with ResultsFolder(folder).claimed(claim):
        assert "another process is writing" in refused(folder, claim)


def test_a_folder_without_records_says_so(folder: Path) -> None:
    with pytest.raises(KnnlmError, match="holds no results"):
        load_records(folder, KINDS)
    assert ResultsFolder(folder).read(Coverage(1)) is None


PROVENANCE = Provenance(
    model="abc",
    other_models=(UsedLM("seed-1", None, "def"), UsedLM("long", 300, "ghi")),
    train_seconds=12,
    others_train_seconds={"seed-1": 11},
    command="measure it",
    commit=None,
    seed=0,
    versions={"python": "3.11"},
    machine="Linux",
    instructions=None,
    threads=2,
    seconds=1.5,
)
RECORD = Record(
    Coverage(4).name,
    Coverage.kind,
    "prose",
    Coverage(4).settings,
    None,
    CoverageMeasurement(0.25, 0.5),
    PROVENANCE,
)


@given(
    st.builds(CoverageMeasurement, st.floats(0, 1), st.floats(0, 1)),
    st.builds(
        replace,
        st.just(PROVENANCE),
        commit=st.none() | st.text(),
        threads=st.none() | st.integers(),
        seconds=st.floats(0, 1e9),
        versions=st.dictionaries(st.text(), st.text()),
    ),
    st.none() | st.text(),
)
def test_a_record_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    measurement: CoverageMeasurement,
    provenance: Provenance,
    made_with: str | None,
) -> None:
    folder = tmp_path_factory.mktemp("results", numbered=True)
    (folder / "records").mkdir()
    record = replace(RECORD, measurement=measurement, provenance=provenance, made_with=made_with)
    results = ResultsFolder(folder)
    results.write(record)
    assert results.read(Coverage(4)) == record
    assert load_records(folder, KINDS) == {record.condition: record}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The file of a record."""
    (tmp_path / "records").mkdir()
    ResultsFolder(tmp_path).write(RECORD)
    return tmp_path / "records" / f"{RECORD.condition}.json"


def changed(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Write the record again with something changed, and a checksum that fits."""
    fields = json.loads(file.read_text())
    del fields["checksum"]
    change(fields)
    write_json(file, fields)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r.update(more=1), "more is not known"),
        (lambda r: r.pop("made_with"), "made_with is missing"),
        (lambda r: r["measurement"].update(train=1.0), "measurement.train is not known"),
        (lambda r: r["measurement"].pop("test"), "measurement.test is missing"),
        (lambda r: r["measurement"].update(test="much"), "measurement.test is not a number"),
        (lambda r: r["measurement"].update(test=None), "measurement.test is not a number"),
        (lambda r: r["provenance"].update(threads=2.5), "provenance.threads is not a whole"),
        (lambda r: r["provenance"]["versions"].update(numpy=2), "versions.numpy is not a string"),
        (lambda r: r["provenance"]["other_models"][1].pop("step"), "other_models[1].step is miss"),
        (lambda r: r.update(kind="coverages"), "kind coverages is not known"),
    ],
)
def test_a_record_with_other_fields_is_refused(
    written: Path, change: Callable[[dict[str, Any]], Any], problem: str
) -> None:
    changed(written, change)
    with pytest.raises(DamagedError) as error:
        load_records(written.parents[1], KINDS)
    sentence = str(error.value)
    assert problem in sentence
    assert sentence.startswith(str(written))
    assert sentence.endswith("restore it, or delete it and measure its condition again")


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (1, "has format 1 and this knnlm reads format 2: migrate"),
        (3, "has format 3 but this knnlm reads up to 2: install a newer knnlm"),
    ],
)
def test_a_record_of_another_format_is_refused(written: Path, number: int, sentence: str) -> None:
    changed(written, lambda r: r.update(format=number))
    with pytest.raises(KnnlmError, match=sentence):
        load_records(written.parents[1], KINDS)


def test_a_folder_of_earlier_records_is_refused(folder: Path, claim: Claim) -> None:
    (folder / "records").rename(folder / "rows")
    assert "rows has format 1 and this knnlm reads format 2: migrate" in refused(folder, claim)
    with pytest.raises(KnnlmError, match="scripts/migrate_records.py, or measure again"):
        load_records(folder, KINDS)


def test_a_damaged_record_is_refused(written: Path) -> None:
    written.write_bytes(written.read_bytes().replace(b"0.25", b"0.75"))
    with pytest.raises(DamagedError, match="its checksum differs"):
        ResultsFolder(written.parents[1]).read(Coverage(4))
