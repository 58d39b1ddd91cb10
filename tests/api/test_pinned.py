"""What a model was tuned to, what is asked for twice, and what cannot be meant."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from knnlm import KNNLM, Datastore, Sampling, UsageError

pytestmark = pytest.mark.pipeline
THREE: Any = 3
NONE: Any = None
NAME: Any = "store"


@pytest.fixture
def store(tuned_store: Path, tmp_path: Path) -> Datastore:
    """A copy that may be changed."""
    shutil.copytree(tuned_store, tmp_path / "store")
    return Datastore.open(tmp_path / "store")


def test_a_tuned_model_keeps_its_settings(store: Datastore, texts: dict[str, Path]) -> None:
    few = KNNLM(store).tune(texts["valid"], k=8)
    many = KNNLM(store).tune(texts["valid"], k=64)
    assert few.settings.retrieval is not None
    assert few.evaluate(texts["test"]).k == few.settings.retrieval.k == 8
    assert many.evaluate(texts["test"]).k == KNNLM(store).evaluate(texts["test"]).k == 64
    assert few.to_transformers().config.tuned.retrieval == few.settings.retrieval


def test_no_neighbors_cannot_be_tuned(store: Datastore, texts: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="k = 0 is out of range"):
        KNNLM(store).tune(texts["valid"], k=0)


def test_exact_scores_of_an_index_are_not_those_of_exact_search(
    store: Datastore, texts: dict[str, Path]
) -> None:
    KNNLM(store, exact=True).tune(texts["valid"], k=8)
    index = store.build_index(factory="IVF4,Flat", nprobe=32, recall=0)
    tuned = KNNLM(store, score="exact").tune(texts["valid"], k=8)
    again = KNNLM(store, score="exact").settings.retrieval
    assert again == tuned.settings.retrieval
    assert again is not None
    assert again.index == index.name
    with pytest.raises(UsageError, match="exact search has exact scores: leave out `score`"):
        KNNLM(store, exact=True, score="index")
    with pytest.raises(UsageError, match="`index` and `exact` exclude each other"):
        store.search(store.entries.key("att").read(0, 1), index=index.name, exact=True)


def test_the_length_of_a_text_is_limited_and_said(store: Datastore) -> None:
    model = KNNLM(store)
    with pytest.raises(UsageError, match="tokens but the model reads at most 24: shorten it"):
        model.explain("the cat sat on a mat " * 20)
    sampling = Sampling(sample=True, max_new_tokens=9)
    assert len(model.generate("the cat", max_new_tokens=3, sampling=sampling).tokens) == 3
    assert len(model.generate("the cat", sampling=sampling).tokens) == 9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda store: KNNLM(THREE), "`store` is an int \\(3\\): give Datastore or a path"),
        (lambda store: Datastore(NAME), "made by Datastore.build or Datastore.open"),
        (lambda store: KNNLM(store).generate(NONE), "`prompt` is None: give a text"),
        (lambda store: store.combine("clusters"), "`components` is a str .*: give a list of texts"),
        (lambda store: store.queries(""), "text is an empty path"),
        (lambda store: KNNLM(store, lam=2.0), "lambda 2.0 is out of range"),
    ],
)
def test_what_cannot_be_meant(store: Datastore, wrong: object, message: str) -> None:
    assert callable(wrong)
    with pytest.raises(UsageError, match=message):
        wrong(store)


def test_results_show_themselves_in_one_line(store: Datastore, texts: dict[str, Path]) -> None:
    assert "recall@" in repr(store.build_index(factory="Flat"))
    made = store.distill(texts["valid"], size=8)
    assert repr(made).startswith("Distilled(clusters on att; component clusters, λ ")
    assert repr(KNNLM(store).generate("the cat", max_new_tokens=1)).startswith("Generation(prompt=")
