"""λ and τ of a distilled component are settings of the datastore: tuned again, replaced, given."""

import re
from pathlib import Path

import pytest

import knnlm.training.distillation as module
from knnlm.api import KNNLM, Datastore
from knnlm.cli.main import run
from knnlm.components.records import component_record, list_components
from knnlm.components.stored import load_stored
from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError
from knnlm.evaluation.control import fit_control
from knnlm.evaluation.mixing import fit_lambda
from knnlm.evaluation.settings import choose_settings, forget_settings, load_settings
from knnlm.evaluation.tuning import tune
from knnlm.files import fingerprint, read_json
from knnlm.models.load import LanguageModel
from knnlm.training.distillation import load_distilled
from tests.conftest import prose
from tests.search.conftest import built as built
from tests.search.conftest import store as store
from tests.training.distilling import HEAD, error_of, files_in, json_of

pytestmark = pytest.mark.pipeline


@pytest.fixture
def opened(store: Entries, lm: LanguageModel, texts: dict[str, Path]) -> Datastore:
    """A datastore with tuned neighbors and a head."""
    datastore = Datastore(store, lm)
    KNNLM(datastore, exact=True).tune(texts["valid"], k=8)
    datastore.distill(texts["valid"], **HEAD)
    return datastore


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another validation text."""
    file = tmp_path / "other.txt"
    file.write_text(prose(7, 50))
    return file


def test_settings_are_kept_beside_those_of_the_neighbors(opened: Datastore) -> None:
    made = load_distilled(opened.entries, "head")
    file = read_json(opened.path / "tuned.json")
    assert file["format"] == 3
    assert [each["component"] for each in file["settings"].values()] == ["knn", "head"]
    assert file["settings"]["head"] == made.settings.as_json()
    assert made.settings.retrieval is None
    assert made.component.tau == made.settings.tau
    assert KNNLM(opened, component="head").settings == made.settings
    record = read_json(opened.path / "components/head/component.json")
    assert record == made.record
    assert not {"lambda", "lam", "temperature", "interp_ppl"} & set(record)


def test_tuning_again_leaves_the_component_as_it_is(opened: Datastore, other: Path) -> None:
    folder = opened.path / "components/head"
    before, first = files_in(folder), load_distilled(opened.entries, "head").settings
    neighbors = choose_settings(opened.entries)
    tuned = KNNLM(opened, component="head").tune(other).settings
    queries = opened.queries(other, "valid")
    assert files_in(folder) == before
    assert tuned.text == fingerprint(queries.meta["text"]) != first.text
    head, control = (
        load_stored(opened.entries, "head"),
        fit_control(opened.model.model, opened.entries, queries),
    )
    assert tuned == tune(head, queries, name="head", control=control).settings
    assert [s for s in load_settings(opened.entries) if s.component == "head"] == [tuned]
    assert choose_settings(opened.entries) == neighbors
    again = load_distilled(opened.entries, "head")
    assert (again.settings, again.component.tau) == (tuned, tuned.tau)
    assert tuned.lam == fit_lambda(queries.lm_logprob, again.component.target_logprobs(queries))
    # the search for τ starts from the component's own, not from the last one tuned
    assert KNNLM(opened, component="head").tune(other).settings == tuned


def test_a_component_is_tuned_and_changed_by_commands(
    opened: Datastore, other: Path, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, head = opened.path, ("--component", "head")
    tuned = json_of(capsys, "tune", at, "--text", other, *head)
    assert (tuned["component"], "k" in tuned, "mask" in tuned) == ("head", False, False)
    result = json_of(capsys, "eval", at, "--text", texts["test"], *head)
    assert (result["lambda"], result["temperature"]) == (tuned["lambda"], tuned["temperature"])
    grid = json_of(capsys, "tune", at, "--text", other, *head, "--taus", "3,7")
    assert grid["temperature"] in (3, 7)
    assert grid["interp_ppl"] >= tuned["interp_ppl"]
    assert run(["tune", str(at), "--text", str(other), *head]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("component head, λ ")
    assert f"next: knnlm eval {at} --text TEST --component head" in printed
    sentence = "--k belongs to a search: leave it out with --component"
    assert sentence in error_of(capsys, "tune", at, "--text", other, *head, "--k", "4")


def test_temperature_and_lambda_are_given_instead_of_the_tuned_ones(
    opened: Datastore, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, test, head = opened.path, texts["test"], ("--component", "head")
    tuned = load_distilled(opened.entries, "head").settings
    result = json_of(capsys, "eval", at, "--text", test, *head, "--tau", "4")
    assert (result["temperature"], result["lambda"]) == (4, tuned.lam)
    queries = opened.queries(test)
    scores = load_stored(opened.entries, "head").target_scores(queries)
    alone = KNNLM(opened, component="head", lam=1.0, tau=4.0).evaluate(test)
    assert alone.interp_ppl == alone.component_ppl == pytest.approx(result["component_ppl"])
    assert alone.component_ppl != pytest.approx(
        KNNLM(opened, component="head").evaluate(test).component_ppl, rel=1e-4
    )
    component = KNNLM(opened, component="head", tau=4.0).component
    assert (component.target_logprobs(queries) == scores.logprobs(4.0)).all()
    words = ("generate", at, "the", "--max-new-tokens", "2", *head)
    new = json_of(capsys, *words, "--tau", "4", "--lambda", "0.5")
    assert (new["temperature"], new["lambda"]) == (4, 0.5)
    assert "0.0 is out of range" in error_of(
        capsys, "eval", at, "--text", test, *head, "--tau", "0"
    )


def test_a_component_without_settings_says_how_to_tune_it(
    opened: Datastore, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    forget_settings(opened.entries, "head")
    assert choose_settings(opened.entries) is not None  # those of the neighbors stay
    at, test, head = opened.path, texts["test"], ("--component", "head")
    for words in (("eval", at, "--text", test, *head), ("generate", at, "the", *head)):
        error = error_of(capsys, *words)
        assert error == (
            f"knnlm: {at} is not tuned for --component head: run 'knnlm tune {at} --text VALID "
            "--component head' first, or give --lambda and --tau"
        )
    mix = ("distill", at, "--text", texts["valid"], "--mix", "knn,head")
    run_first = f"run 'knnlm tune {at} --text VALID' with --component head"
    assert f"component head of {at} is not tuned: {run_first}" in error_of(capsys, *mix)
    with pytest.raises(KnnlmError, match="run `KNNLM.tune` with `component` head first"):
        load_distilled(opened.entries, "head")
    given = ("--lambda", "0.25", "--tau", "2")
    assert json_of(capsys, "eval", at, "--text", test, *head, *given)["lambda"] == 0.25
    advised = re.search("run 'knnlm (.*)' first", error)
    assert advised is not None
    tuned = json_of(capsys, *advised[1].replace("VALID", str(texts["valid"])).split())
    assert json_of(capsys, "eval", at, "--text", test, *head)["lambda"] == tuned["lambda"]


def test_replacing_a_component_drops_the_settings_of_the_old_one(
    opened: Datastore, other: Path, texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    KNNLM(opened, component="head").tune(other)
    neighbors = choose_settings(opened.entries)

    def dies(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "save_settings", dies)
        with pytest.raises(KeyboardInterrupt):
            opened.distill(texts["valid"], size=2, **HEAD)
    # the new component is there, without λ and τ of the old one
    assert component_record(opened.entries, "head")["spec"]["size"] == 2
    assert [s.component for s in load_settings(opened.entries)] == ["knn"]
    made = opened.distill(texts["valid"], size=2, **HEAD)
    assert made.record["spec"]["size"] == 2
    assert [s for s in load_settings(opened.entries) if s.component == "head"] == [made.settings]
    assert choose_settings(opened.entries) == neighbors
    assert list_components(opened.entries) == ["head"]
    assert not (opened.path / "components/head/learning").exists()


def test_a_new_component_does_not_change_how_neighbors_are_found(
    opened: Datastore, other: Path, texts: dict[str, Path]
) -> None:
    """Settings of the text that neighbors were tuned on last are used, whatever others were."""
    first = choose_settings(opened.entries)
    latest = KNNLM(opened, key="ffn", exact=True).tune(other, k=8).settings
    assert KNNLM(opened).settings == latest != first
    opened.distill(texts["valid"], seed=1, **HEAD)
    assert KNNLM(opened).settings == latest
