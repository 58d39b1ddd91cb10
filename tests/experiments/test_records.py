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
def empty(tmp_path: Path, claim: Claim) -> Path:
    """A folder that is claimed and holds no record."""
    with ResultsFolder(tmp_path / "out").claimed(claim):
        pass
    return tmp_path / "out"


@pytest.fixture
def folder(empty: Path) -> Path:
    """One that holds a record."""
    ResultsFolder(empty).write(RECORD)
    return empty


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
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_refusing_a_claim_changes_nothing(folder: Path, claim: Claim) -> None:
    (folder / ".lock").unlink()  # as in a copy, or in the repository
    refused(folder, claim._replace(scale="verse"))
    assert sorted(p.name for p in folder.iterdir()) == ["records", "scale.json"]


@pytest.mark.parametrize("field", ["scale", "text", "others"])
def test_a_folder_without_records_may_be_claimed_again(
    field: str, empty: Path, prose: Texts
) -> None:
    """By a corrected call: nothing was measured."""
    corrected = {
        "scale": make_claim("verse", prose, LMS),
        "text": make_claim("prose", prose._replace(test=prose.valid), LMS),
        "others": make_claim("prose", prose, [ExistingLM("gpt2", "somebody/gpt2")]),
    }[field]
    with ResultsFolder(empty).claimed(corrected):
        assert read_claim(empty) == corrected


def test_an_experiments_own_files_are_no_other_things(tmp_path: Path, claim: Claim) -> None:
    (tmp_path / "model").mkdir()
    with ResultsFolder(tmp_path, own_names=("work", "model")).claimed(claim):
        assert read_claim(tmp_path) == claim


def test_two_processes_do_not_share_a_folder(folder: Path, claim: Claim) -> None:
    with ResultsFolder(folder).claimed(claim):
        assert "another process is writing" in refused(folder, claim)


def test_a_folder_without_records_says_so(empty: Path) -> None:
    with pytest.raises(KnnlmError, match="holds no results"):
        load_records(empty, KINDS)
    assert ResultsFolder(empty).read(Coverage(1)) is None


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
    write_json(folder / "scale.json", {"scale": "prose", "text": [], "lms": {}, "others": {}})
    record = replace(RECORD, measurement=measurement, provenance=provenance, made_with=made_with)
    results = ResultsFolder(folder)
    results.write(record)
    assert results.read(Coverage(4)) == record
    assert load_records(folder, KINDS) == {record.condition: record}


@pytest.fixture
def written(folder: Path) -> Path:
    """The file of a record."""
    return folder / "records" / f"{RECORD.condition}.json"


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
        (lambda r: r.update(scale="verse"), "scale is verse, not prose as in scale.json"),
        (lambda r: r.update(condition="coverage-att-5"), "condition is coverage-att-5, not what"),
        (lambda r: r["settings"].update(more=1), "settings.more is not known"),
        (lambda r: r["settings"]["spec"].pop("metric"), "settings.spec.metric is missing"),
        (lambda r: r["settings"].update(k="4"), "settings.k is not a whole number"),
        (lambda r: r["settings"].update(k=5), "settings are those of coverage-att-5"),
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


def test_a_record_under_another_name_is_refused(written: Path) -> None:
    written.rename(written.with_name("coverage-att-5.json"))
    with pytest.raises(DamagedError, match="condition is coverage-att-4, not what the file is"):
        load_records(written.parents[1], KINDS)
    with pytest.raises(DamagedError, match="condition is coverage-att-4, not what the file is"):
        ResultsFolder(written.parents[1]).read(Coverage(5))


def test_a_record_of_another_scale_is_not_taken_for_ones_own(written: Path, claim: Claim) -> None:
    changed(written, lambda r: r.update(scale="verse"))
    results = ResultsFolder(written.parents[1])
    with (
        pytest.raises(DamagedError, match="scale is verse, not prose as in scale.json"),
        results.claimed(claim),
    ):
        results.read(Coverage(4))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c.pop("lms"), "lms is missing"),
        (lambda c: c.update(others=[]), "others is not an object"),
        (lambda c: c.update(others={"gpt2": 2}), "others.gpt2 is not a string"),
        (lambda c: c.update(text={}), "text is not a list"),
        (lambda c: c.update(text=["all"]), r"text\[0\] is not an object"),
        (lambda c: c.update(scale=None), "scale is not a string"),
        (lambda c: c.update(more=1), "more is not known"),
    ],
)
def test_a_claim_with_other_fields_is_refused(
    folder: Path, claim: Claim, change: Callable[[dict[str, Any]], Any], problem: str
) -> None:
    changed(folder / "scale.json", change)
    wanted = rf"scale.json does not say what results are of \({problem}\): restore it"
    with pytest.raises(DamagedError, match=wanted):
        load_records(folder, KINDS)
    with pytest.raises(DamagedError, match=wanted), ResultsFolder(folder).claimed(claim):
        pass


def test_records_without_a_claim_are_refused(folder: Path, claim: Claim) -> None:
    (folder / "scale.json").unlink()
    sentence = r"has no scale.json, which says what its records are of: restore it"
    with pytest.raises(KnnlmError, match=sentence):
        load_records(folder, KINDS)
    with pytest.raises(KnnlmError, match=sentence), ResultsFolder(folder).claimed(claim):
        pass


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
