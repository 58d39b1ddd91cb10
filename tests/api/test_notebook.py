"""Results in a notebook: tables and colored text in which no text is markup."""

import dataclasses
from html.parser import HTMLParser
from pathlib import Path

import pytest

from knnlm import KNNLM, Datastore, EvaluationResult, Explanation
from knnlm.evaluation.explanation import ExplainedToken, RetrievedNeighbor
from knnlm.evaluation.settings import TunedSettings

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """The tags and attributes of a fragment, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.values: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def safe(html: str) -> Tags:
    """A fragment's tags, after checking that hostile text made none and is shown as it is."""
    tags = Tags(html)
    assert not {"script", "img", "iframe", "object"} & tags.tags
    assert not any(name.startswith("on") for name in tags.attributes)
    assert "<script>alert('x')</script>" in tags.text + "".join(tags.values)
    return tags


@pytest.fixture
def result(model: KNNLM, texts: dict[str, Path]) -> EvaluationResult:
    return model.evaluate(texts["test"])


def test_an_evaluation_is_a_table(result: EvaluationResult) -> None:
    tags = Tags(result._repr_html_())
    assert "table" in tags.tags
    assert f"{result.interp_ppl:.2f}" in tags.text


def test_names_of_components_and_indexes_are_escaped(result: EvaluationResult) -> None:
    settings = dataclasses.replace(result.settings, component=HOSTILE, retrieval=None)
    safe(dataclasses.replace(result, settings=settings)._repr_html_())
    assert result.settings.retrieval is not None
    retrieval = dataclasses.replace(result.settings.retrieval, index=HOSTILE)
    indexed = dataclasses.replace(result.settings, retrieval=retrieval)
    safe(dataclasses.replace(result, settings=indexed)._repr_html_())


@pytest.mark.parametrize("field", ["text", "before", "token", "document"])
def test_tokens_and_documents_are_escaped(field: str) -> None:
    neighbor = RetrievedNeighbor("before ", "token", 0.7, "document.txt", False)
    token = ExplainedToken("word", -1.0, -0.5, -0.7, (neighbor,))
    if field == "text":
        token = token._replace(text=HOSTILE)
    else:
        token = token._replace(
            neighbors=(RetrievedNeighbor(**(neighbor._asdict() | {field: HOSTILE})),)
        )
    html = Explanation((token,), TunedSettings(lam=0.3, tau=1.0))._repr_html_()
    tags = Tags(html)
    assert not {"script", "img"} & tags.tags
    assert not any(name.startswith("on") for name in tags.attributes)
    assert "script" in tags.text + "".join(tags.values)  # shown, if only in part


def test_an_explanation_shows_the_text(model: KNNLM) -> None:
    tags = Tags(model.generate("the cat", max_new_tokens=3).explain()._repr_html_())
    assert any("(train.txt)" in value for value in tags.values)


def test_a_datastore_is_a_table(store: Datastore) -> None:
    info = store.info()
    tags = Tags(info._repr_html_())
    assert "table" in tags.tags
    assert str(info.path) in tags.text
    assert f"{info.entries:,} entries" in tags.text


def test_paths_and_names_of_a_datastore_are_escaped(store: Datastore) -> None:
    info = store.info()
    index = {"recall_k": 10, "recall": 0.5, "bytes": 1}
    for hostile in (
        dataclasses.replace(info, path=Path(HOSTILE)),
        dataclasses.replace(info, model_source=HOSTILE),
        dataclasses.replace(info, indexes={HOSTILE: index}),
        dataclasses.replace(info, components={HOSTILE: {"kind": "head", "keys": ["att"]}}),
        dataclasses.replace(info, components={"a": {"kind": HOSTILE, "keys": ["att"]}}),
        dataclasses.replace(info, components={"a": {"note": HOSTILE}}),
        dataclasses.replace(info, meta={**info.meta, "taps": {"att": HOSTILE}}),
    ):
        safe(hostile._repr_html_())


def test_a_path_with_a_space_stays_whole(store: Datastore) -> None:
    info = dataclasses.replace(store.info(), path=Path("my docs/the store"))
    assert "my docs/the store" in Tags(info._repr_html_()).text
    assert str(info).startswith("my docs/the store: ")
