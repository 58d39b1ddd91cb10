"""A results folder belongs to one experiment: other scales, texts and LMs are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from knnlm.errors import KnnlmError
from knnlm.experiments import BaseLM, ExistingLM, ResultsFolder, Texts, load_records
from knnlm.experiments.records import Claim, make_claim, read_claim
from knnlm.models.presets import SMOKE

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
        load_records(folder)
    assert ResultsFolder(folder).read("anything") is None
