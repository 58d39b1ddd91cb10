"""An interrupted build goes on only with the same model, settings and text."""

from pathlib import Path
from typing import Any

import pytest

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries, open_entries
from knnlm.datastore.table import MANIFEST
from knnlm.errors import KnnlmError
from knnlm.files import read_json, write_json
from knnlm.locks import write_lock
from knnlm.models.load import LanguageModel
from knnlm.text.documents import Document

from .helpers import Texts, contents, library, sentence

pytestmark = pytest.mark.usefixtures("small_groups")
OPTIONS: dict[str, Any] = {"window": 12, "stride": 5, "part_rows": 90}


def build(lm: LanguageModel, source: Texts, folder: Path, **changed: Any) -> Entries:
    return build_entries(lm, source, folder, **{**OPTIONS, **changed})


def interrupted(lm: LanguageModel, folder: Path, source: Texts, parts: int) -> int:
    """A build that died after so many parts; returns the rows it committed."""
    build(lm, source, folder)
    manifest = read_json(folder / MANIFEST)
    del manifest["summary"]
    assert len(manifest["parts"]) >= parts
    manifest["parts"] = manifest["parts"][:parts]
    manifest["rows"] = sum(part["rows"] for part in manifest["parts"])
    write_json(folder / MANIFEST, {**manifest, "complete": False})
    return int(manifest["rows"])


def refused(lm: LanguageModel, source: Texts, folder: Path, sentence: str, **changed: Any) -> None:
    """…and what was there is still there."""
    before = contents(folder)
    with pytest.raises(KnnlmError, match=sentence):
        build(lm, source, folder, **changed)
    assert contents(folder)[MANIFEST] == before[MANIFEST]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_resumed_build_runs_the_model_only_over_what_is_missing(
    tmp_path: Path, lm: LanguageModel, parts: int
) -> None:
    done = interrupted(lm, tmp_path / "torn", library(), parts)
    whole = build(lm, library(), tmp_path / "whole")
    seen: list[int] = []
    handle = lm.model.base_model.register_forward_pre_hook(
        lambda _, __, named: seen.append(named["input_ids"].numel()), with_kwargs=True
    )
    build(lm, Texts([Document("x", "y")]), tmp_path / "probe")
    probes = sum(seen)
    seen.clear()
    build(lm, library(), tmp_path / "torn")
    handle.remove()
    assert contents(tmp_path / "torn") == contents(tmp_path / "whole")
    missing = whole.count - done
    assert missing <= sum(seen) - probes + 1 <= 5 * missing  # windows overlap and are padded


@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_text_that_changed_before_the_last_commit_is_refused(
    tmp_path: Path, lm: LanguageModel, place: int
) -> None:
    interrupted(lm, tmp_path, library(), parts=2)
    changed = library()
    document = changed.documents[place]
    changed.documents[place] = document._replace(text=document.text[:-1] + "!")
    refused(
        lm,
        changed,
        tmp_path,
        "the text differs from the one .* was begun with: choose another `path`",
    )


def test_a_text_that_became_shorter_is_refused(tmp_path: Path, lm: LanguageModel) -> None:
    interrupted(lm, tmp_path, library(), parts=2)
    refused(
        lm,
        Texts(library().documents[:3]),
        tmp_path,
        "the text (is shorter than|differs from) the one .* begun with",
    )
    refused(lm, Texts([]), tmp_path, "the text is empty")


def test_a_text_that_grew_after_all_its_rows_were_committed_is_refused(
    tmp_path: Path, lm: LanguageModel
) -> None:
    """The last group of the old text was a short one: its rows must not be stored twice."""
    interrupted(lm, tmp_path, library(), parts=3)
    grown = library()
    grown.documents.append(Document("new", sentence(9, seed=99)))
    refused(lm, grown, tmp_path, "the text differs from the one")


@pytest.mark.parametrize("group", [60, 10_000])
def test_the_same_tokens_in_other_documents_are_refused(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    monkeypatch.setattr("knnlm.datastore.build.GROUP_TOKENS", group)
    first, rest = "the cat sat", " on a grey mat" * 40
    interrupted(lm, tmp_path, Texts([Document("both", first + rest)]), parts=1)
    refused(
        lm,
        Texts([Document("one", first), Document("other", rest)]),
        tmp_path,
        "the text differs from the one",
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"window": 13}, "other window"),
        ({"stride": 4}, "other stride"),
        ({"part_rows": 91}, "other part_rows"),
        ({"keys": ["att"]}, "other columns"),
        ({"logprobs": True}, "other columns"),
        ({"dtype": "float32"}, "other columns"),
    ],
)
def test_other_settings_are_refused_and_named(
    tmp_path: Path, lm: LanguageModel, changed: dict[str, Any], named: str
) -> None:
    interrupted(lm, tmp_path, library(), parts=1)
    refused(
        lm,
        library(),
        tmp_path,
        rf"made from something else \({named}\): choose another `path`, or delete",
        **changed,
    )


def test_another_text_or_model_is_refused_by_what_it_says_it_is(
    tmp_path: Path, lm: LanguageModel
) -> None:
    interrupted(lm, tmp_path, library(), parts=1)
    other = Texts(library().documents, label="another")
    refused(lm, other, tmp_path, r"something else \(other text\)")
    refused(
        lm._replace(fingerprint="0" * 32),
        other,
        tmp_path,
        r"something else \(other model and text\)",
    )


def test_a_finished_store_is_left_as_it_is_and_needs_no_lock(
    tmp_path: Path, lm: LanguageModel, capfd: pytest.CaptureFixture[str]
) -> None:
    first = build(lm, library(), tmp_path)
    before = {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*")}
    with write_lock(tmp_path):
        again = build(lm, library(), tmp_path)
    assert again.fingerprint == first.fingerprint
    assert {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*")} == before
    assert capfd.readouterr().err == ""  # nothing was run, so nothing is said


def test_a_model_that_was_moved_is_the_same_model(tmp_path: Path, lm: LanguageModel) -> None:
    interrupted(lm, tmp_path, library(), parts=2)
    moved = lm._replace(source="/elsewhere")
    store = build(moved, library(), tmp_path)
    assert store.model_source == "/elsewhere"
    store.verify()
    store.require_model(lm)


def test_a_model_folder_is_no_place_for_a_store(tmp_path: Path, lm: LanguageModel) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        KnnlmError, match="is a model folder: choose another `path` for the datastore"
    ):
        build(lm, library(), tmp_path)
    assert contents(tmp_path) == {"config.json": b"{}"}


def test_an_unfinished_store_is_not_opened_and_says_how_to_go_on(
    tmp_path: Path, lm: LanguageModel
) -> None:
    rows = interrupted(lm, tmp_path, library(), parts=2)
    with pytest.raises(
        KnnlmError,
        match=rf"is not finished \({rows} rows so far\): run the same `Datastore.build` again",
    ):
        open_entries(tmp_path)


def test_two_builds_of_one_store_at_once_are_refused(tmp_path: Path, lm: LanguageModel) -> None:
    with write_lock(tmp_path), pytest.raises(KnnlmError, match="another process is writing to"):
        build(lm, library(), tmp_path)
