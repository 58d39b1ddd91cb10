"""A text that is in the datastore is recognized, whatever was done to its surface; other text is
not taken for it."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm import KNNLM, Datastore, Folder, UsageError
from knnlm.evaluation import overlap
from knnlm.evaluation.overlap import RUN, find_overlap
from tests.conftest import WORDS

PLAIN = np.arange(1000)


def prose(seed: int, words: int) -> str:
    chance = random.Random(seed)
    sentences = [" ".join(chance.choices(WORDS, k=9)).capitalize() for _ in range(words // 9)]
    return ".\n".join(sentences) + ".\n"


TRAIN = prose(1, 3600)
LINES = TRAIN.splitlines(keepends=True)


def rewrapped(text: str) -> str:
    words = text.split()
    return "\n".join(" ".join(words[i : i + 5]) for i in range(0, len(words), 5)) + "\n"


LEAKS: dict[str, Callable[[], tuple[str, bytes]]] = {
    "the file itself": lambda: ("a.txt", TRAIN.encode()),
    "Windows line ends": lambda: ("a.txt", TRAIN.replace("\n", "\r\n").encode()),
    "old Mac line ends": lambda: ("a.txt", TRAIN.replace("\n", "\r").encode()),
    "a byte-order mark": lambda: ("a.txt", b"\xef\xbb\xbf" + TRAIN.encode()),
    "one line more": lambda: ("a.txt", (TRAIN + "And one new line at the end.\n").encode()),
    "one line less": lambda: ("a.txt", "".join(LINES[1:]).encode()),
    "JSON lines": lambda: ("a.jsonl", json.dumps({"text": TRAIN}).encode()),
    "half of it": lambda: ("a.txt", "".join(LINES[: len(LINES) // 2]).encode()),
    "its second half": lambda: ("a.md", "".join(LINES[len(LINES) // 2 :]).encode()),
    "a page of it": lambda: ("a.txt", "".join(LINES[100:120]).encode()),
    "quoted": lambda: ("a.txt", "".join(f"> {line}" for line in LINES).encode()),
    "indented": lambda: ("a.txt", "".join(f"    {line}" for line in LINES).encode()),
    "wrapped otherwise": lambda: ("a.txt", rewrapped(TRAIN).encode()),
    "twice": lambda: ("a.txt", (TRAIN + TRAIN).encode()),
    "a line for each document": lambda: (
        "a.jsonl",
        "\n".join(
            json.dumps({"text": "".join(LINES[i : i + 9])}) for i in range(0, 360, 9)
        ).encode(),
    ),
    "in the middle of new text": lambda: (
        "a.txt",
        (prose(7, 1800) + TRAIN + prose(8, 900)).encode(),
    ),
    "a notebook": lambda: ("a.ipynb", json.dumps({"cells": [{"source": LINES}]}).encode()),
    "HTML": lambda: ("a.html", f"<html><body><p>{TRAIN}</p></body></html>".encode()),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Datastore:
    folder = tmp_path_factory.mktemp("overlap")
    (folder / "train.txt").write_text(TRAIN)
    return Datastore.build(tiny_model, folder / "train.txt", folder / "store", keys="ffn")


@pytest.mark.parametrize("leak", LEAKS)
def test_a_copy_is_refused(store: Datastore, tmp_path: Path, leak: str) -> None:
    name, data = LEAKS[leak]()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match="in the datastore, where every token retrieves itself"):
        KNNLM(store, lam=0.5, tau=1.0).evaluate(tmp_path / name)


@pytest.mark.pipeline
def test_whoever_means_it_may(store: Datastore, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TRAIN)
    result = KNNLM(store, lam=0.5, tau=1e-3).evaluate(tmp_path / "a.txt", allow_overlap=True)
    assert result.interp_ppl < 20 < result.base_ppl
    with pytest.raises(UsageError, match="a.txt is in the datastore"):  # not remembered
        KNNLM(store, lam=0.5, tau=1e-3).evaluate(tmp_path / "a.txt")


@pytest.mark.pipeline
def test_other_text_of_the_same_words_is_taken(
    store: Datastore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "b.txt").write_text(prose(2, 1800))
    assert KNNLM(store, lam=0.5, tau=1.0).evaluate(tmp_path / "b.txt").tokens > 1000
    assert "in the datastore" not in caplog.text


def test_short_documents_are_compared_as_a_whole(tmp_path: Path, tiny_model: Path) -> None:
    rows = [prose(seed, 9) for seed in range(200)]
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps({"text": r}) for r in rows))
    (tmp_path / "leak.jsonl").write_text("\n".join(json.dumps({"text": r}) for r in rows[50:90]))
    new = [prose(seed, 9) for seed in range(1000, 1040)]
    (tmp_path / "new.jsonl").write_text("\n".join(json.dumps({"text": r}) for r in new))
    store = Datastore.build(tiny_model, tmp_path / "train.jsonl", tmp_path / "store", keys="ffn")
    model = KNNLM(store, lam=0.5, tau=1.0)
    with pytest.raises(UsageError, match="100% of the text is in the datastore"):
        model.evaluate(tmp_path / "leak.jsonl")
    assert model.evaluate(tmp_path / "new.jsonl").tokens > 0


def test_copies_inside_a_folder_are_left_out_of_its_splits(
    tmp_path: Path, tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(40):
        (docs / f"{number}.md").write_text(prose(number, 180))
    for number in range(12):
        (docs / f"copy{number}.md").write_text(prose(0, 360))
    folder = Folder(docs, split=(50, 25, 25))
    store = Datastore.build(tiny_model, folder, tmp_path / "store", keys="ffn")
    stored = {document.name for document in store.entries.documents}
    assert any(name.startswith("copy") for name in stored)
    queries = store.queries(split="valid")
    names = {document.name for document in queries.documents}
    assert names
    assert not names & stored
    assert not any(name.startswith("copy") for name in names)
    assert "in the datastore and left out" in caplog.text


@given(st.lists(st.integers(0, 5), max_size=200), st.lists(st.integers(0, 5), max_size=400))
def test_shared_runs_are_those_of_a_search_by_hand(text: list[int], stored: list[int]) -> None:
    runs = {tuple(stored[i : i + 4]) for i in range(len(stored) - 3)}
    shared: set[int] = set()
    for start in range(len(text) - 3):
        if tuple(text[start : start + 4]) in runs:
            shared.update(range(start, start + 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "RUN", 4)
        patch.setattr(overlap, "_BLOCK", 50)
        patch.setattr(overlap, "_LONGEST_SHORT", 0)
        counted = find_overlap(
            [np.array(text, np.int32)], np.array(stored, np.int32), [len(stored)], PLAIN
        )
    assert counted.share == pytest.approx(len(shared) / max(1, len(text)))


def test_runs_do_not_cross_documents_and_punctuation_does_not_count() -> None:
    normalized = np.array([-1, *range(499)])
    stored = np.arange(1, 200, dtype=np.int32)
    halves = [stored[: RUN // 2], stored[RUN // 2 : RUN]]
    assert find_overlap(halves, stored, [len(stored)], normalized).share == 0
    dotted = np.repeat(stored[:70], 2)
    dotted[1::2] = 0  # a full stop after every token
    counted = find_overlap([dotted], stored, [len(stored)], normalized)
    assert (counted.share, counted.documents, counted.total) == (1.0, (0,), 1)
