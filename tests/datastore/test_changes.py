"""A datastore that was added to, forgotten from and compacted is the one that the documents which
are left would give, and a writer that is killed leaves the version before or after."""

import itertools
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knnlm.datastore import changes, publishing
from knnlm.datastore.build import build_entries
from knnlm.datastore.changes import add_documents, compact_entries, forget_documents
from knnlm.datastore.entries import Entries, open_entries
from knnlm.datastore.publishing import ADDED
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.models.load import LanguageModel
from knnlm.text.documents import Document

from .helpers import Texts, contents, sentence

pytestmark = pytest.mark.usefixtures("small_groups")
WORDS = (9, 5, 14, 1, 22, 7, 12, 3, 30, 2, 16, 11)
DOCUMENTS = [Document(f"n° {i}", sentence(count, seed=i)) for i, count in enumerate(WORDS)]
COLUMNS = ("att", "ffn", "target", "document", "position", "lm_logprob")


def built(lm: LanguageModel, documents: Sequence[Document], path: Path) -> Entries:
    text = Texts(documents, ", ".join(document.name for document in documents))
    return build_entries(lm, text, path, window=12, stride=5, logprobs=True, part_rows=40)


def added(lm: LanguageModel, store: Entries, documents: Sequence[Document]) -> Entries:
    return add_documents(lm, store, Texts(documents, ", ".join(d.name for d in documents)))


def assert_holds(store: Entries, lm: LanguageModel, documents: Sequence[Document]) -> None:
    """All that one can ask it is what a datastore built of these documents answers."""
    fresh = built(lm, documents, store.path.parent / f"fresh-{random.random()}")
    assert store.count == fresh.count
    assert store.words == fresh.words
    assert store.documents == fresh.documents
    assert store.document_count == len(store.metadata) == len(fresh.documents)
    np.testing.assert_array_equal(store.targets, fresh.targets)
    np.testing.assert_array_equal(store.document_numbers, fresh.document_numbers)
    for name in ("att", "ffn", "lm_logprob"):
        # a group of other windows rounds in another way
        ours, theirs = (entries.columns[name].all() for entries in (store, fresh))
        np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=5e-3)
    for entry in range(0, store.count, 7):
        assert store.document_of(entry) == fresh.document_of(entry)
        for tokens in (Entries.context, Entries.continuation):
            np.testing.assert_array_equal(tokens(store, entry, 5), tokens(fresh, entry, 5))
    store.verify()


@pytest.fixture
def store(lm: LanguageModel, tmp_path: Path) -> Entries:
    return built(lm, DOCUMENTS[:7], tmp_path / "store")


def test_added_documents_are_there_as_if_they_had_been_built_with_the_others(
    store: Entries, lm: LanguageModel
) -> None:
    before = store.fingerprint
    store = added(lm, store, DOCUMENTS[7:10])
    assert store.fingerprint != before
    assert_holds(store, lm, DOCUMENTS[:10])
    store = added(lm, store, DOCUMENTS[10:])
    assert_holds(store, lm, DOCUMENTS)
    assert not (store.path / ADDED).exists()


def test_forgotten_documents_are_gone_for_every_reader(store: Entries, lm: LanguageModel) -> None:
    before = store.fingerprint
    store = forget_documents(store, ["n° 2", "n° 4"])
    assert_holds(store, lm, [d for d in DOCUMENTS[:7] if d.name not in ("n° 2", "n° 4")])
    again = forget_documents(store, ["n° 0"])
    assert len({before, store.fingerprint, again.fingerprint}) == 3
    assert_holds(again, lm, [DOCUMENTS[i] for i in (1, 3, 5, 6)])


def test_compacted_bytes_hold_nothing_of_what_was_forgotten(
    store: Entries, lm: LanguageModel
) -> None:
    rows = store.columns["document"].all()
    states = {key: store.columns[key].all()[rows == 4] for key in ("att", "ffn")}
    tokens = store.targets[rows == 4]
    store = compact_entries(forget_documents(store, ["n° 4", "n° 1"]))
    assert_holds(store, lm, [DOCUMENTS[i] for i in (0, 2, 3, 5, 6)])
    every = b"".join(contents(store.path).values())
    assert "n° 4".encode() not in every
    assert tokens.tobytes() not in every
    for key, gone in states.items():
        left = {state.tobytes() for state in store.columns[key].all()}
        own = {state.tobytes() for state in gone} - left  # documents may begin alike
        assert len(own) > 1
        assert not any(state in every for state in own), key


def test_what_is_written_again_equals_what_was_there_byte_by_byte(store: Entries) -> None:
    forgotten = forget_documents(store, ["n° 0"])
    before = {name: column.all() for name, column in forgotten.columns.items()}
    numbers = forgotten.document_numbers
    compacted = compact_entries(forgotten)
    assert not compacted.forgotten
    for name in set(COLUMNS) - {"document"}:
        np.testing.assert_array_equal(compacted.columns[name].all(), before[name])
    np.testing.assert_array_equal(compacted.columns["document"].all(), numbers)


def test_any_sequence_of_changes_leaves_the_documents_that_were_not_forgotten(
    lm: LanguageModel, tmp_path: Path
) -> None:
    rng = random.Random(1)
    for number in range(4):
        documents, rest = DOCUMENTS[:3], DOCUMENTS[3:]
        store = built(lm, documents, tmp_path / f"{number}" / "store")
        for _ in range(6):
            what = rng.choice(["add", "forget", "compact"])
            if what == "add" and rest:
                some, rest = rest[: (n := rng.randint(2, 3))], rest[n:]
                if any(len(d.text.split()) > 1 for d in some):
                    store, documents = added(lm, store, some), [*documents, *some]
            elif what == "forget" and len(documents) > 3:
                gone = rng.choice(documents)
                store = forget_documents(store, [gone.name])
                documents = [d for d in documents if d is not gone]
            else:
                store = compact_entries(store)
        assert_holds(store, lm, documents)


def test_a_name_that_is_not_there_changes_nothing(store: Entries) -> None:
    before = contents(store.path)
    with pytest.raises(UsageError, match="unknown document 'n° 44': did you mean 'n° 4'"):
        forget_documents(store, ["n° 1", "n° 44"])
    with pytest.raises(UsageError, match="no document is named"):
        forget_documents(store, [])
    with pytest.raises(KnnlmError, match="would have no entry left"):
        forget_documents(store, [document.name for document in store.documents])
    assert contents(store.path) == before
    store = forget_documents(store, ["n° 4"])
    with pytest.raises(UsageError, match="unknown document 'n° 4'"):
        forget_documents(store, ["n° 4"])


def test_a_datastore_that_changes_while_documents_are_read_for_it_is_left_alone(
    store: Entries, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = build_entries

    def meanwhile(*given: Any, **named: Any) -> Entries:
        staged = really(*given, **named)
        patch.undo()
        compact_entries_without_looking(store)
        return staged

    def compact_entries_without_looking(store: Entries) -> None:
        waiting = (store.path / ADDED).rename(store.path.with_name("waiting"))
        compact_entries(forget_documents(store, ["n° 0"]))
        waiting.rename(store.path / ADDED)

    with monkeypatch.context() as patch:
        patch.setattr(changes, "build_entries", meanwhile)
        with pytest.raises(KnnlmError, match="was changed while documents were read for it"):
            added(lm, store, DOCUMENTS[7:9])
    assert_holds(open_entries(store.path), lm, DOCUMENTS[1:7])
    assert_holds(added(lm, store, DOCUMENTS[7:9]), lm, DOCUMENTS[1:9])


def test_an_unfinished_addition_is_continued_and_keeps_compact_from_guessing(
    store: Entries, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(store.path)
    with monkeypatch.context() as patch:
        patch.setattr(changes, "publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            added(lm, store, DOCUMENTS[7:9])
    found = {n: data for n, data in contents(store.path).items() if not n.startswith(ADDED)}
    assert found == before
    with pytest.raises(KnnlmError, match="an addition to .* was begun and not finished"):
        compact_entries(store)
    assert_holds(
        added(lm, forget_documents(store, ["n° 1"]), DOCUMENTS[7:9]),
        lm,
        [DOCUMENTS[i] for i in (0, 2, 3, 4, 5, 6, 7, 8)],
    )


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_version_that_is_open_stays_as_it_is(store: Entries, lm: LanguageModel) -> None:
    targets, states = store.targets, store.key("att").all()
    compact_entries(forget_documents(added(lm, store, DOCUMENTS[7:9]), ["n° 0"]))
    np.testing.assert_array_equal(store.targets, targets)
    np.testing.assert_array_equal(store.key("att").all(), states)


class Killed(BaseException):
    """Stands for a kill: nothing may catch it."""


@pytest.mark.parametrize("change", ["add", "forget", "compact"])
def test_a_writer_killed_at_any_step_leaves_a_whole_version_and_can_be_run_again(
    change: str, lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that changes the disk in publishing is the last one once."""
    first = built(lm, DOCUMENTS[:5], tmp_path / "first")
    forget_documents(first, ["n° 1"])

    def run(store: Entries) -> Entries:
        match change:
            case "add":
                return added(lm, store, DOCUMENTS[5:8])
            case "forget":
                return forget_documents(store, ["n° 4"])
            case _:
                return compact_entries(store)

    left = [DOCUMENTS[i] for i in (0, 2, 3, 4)]
    after = {"add": [*left, *DOCUMENTS[5:8]], "forget": left[:-1], "compact": left}[change]
    for step in itertools.count():
        path = tmp_path / f"{step}" / "store"
        shutil.copytree(tmp_path / "first", path)
        store, calls = open_entries(path), itertools.count()

        def maybe_killed(name: str, real: object, last: int = step, calls=calls) -> object:  # type: ignore[no-untyped-def]
            def call(*given: object, **named: object) -> object:
                if next(calls) == last:
                    raise Killed(name)
                return real(*given, **named)  # type: ignore[operator]

            return call

        killed = False
        with monkeypatch.context() as patch:
            for module, name in (
                (os, "link"),
                (shutil, "rmtree"),
                (publishing, "write_json"),
                (publishing, "sync_folder"),
            ):
                patch.setattr(module, name, maybe_killed(name, getattr(module, name)))
            try:
                run(store)
            except Killed:
                killed = True
        found = open_entries(path)
        try:
            found.verify()
        except DamagedError as error:
            raise AssertionError(f"killed at step {step}") from error
        assert [d.name for d in found.documents] in (
            [d.name for d in left],
            [d.name for d in after],
        )
        if not killed:
            break
        if change == "forget" and len(found.documents) == len(after):
            continue  # it was done
        assert_holds(run(found), lm, after)
    assert step > 0
