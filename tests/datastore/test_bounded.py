"""A build reads its text as it goes: what it holds in memory does not grow with the text."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knnlm.datastore.build import build_entries
from knnlm.models.load import LanguageModel
from knnlm.text.documents import Document

from .helpers import committed, sentence

PART = 100
pytestmark = pytest.mark.usefixtures("small_groups")


class Watched:
    """So many documents, made when they are asked for; notes what was committed at that time."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count, self.folder = count, folder
        self.committed: list[int] = []

    def describe(self) -> dict[str, Any]:
        return {"kind": "watched", "count": self.count}

    def __iter__(self) -> Iterator[Document]:
        for i in range(self.count):
            self.committed.append(committed(self.folder))
            yield Document(f"document {i}", sentence(10, seed=i))


def test_documents_are_drawn_only_as_rows_are_committed(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.text.tokenizer._BATCH_CHARACTERS", 100)
    source = Watched(120, tmp_path)
    store = build_entries(lm, source, tmp_path, window=12, stride=6, part_rows=PART)
    begins = [0]  # the row at which each document begins
    for document in store.documents:
        begins.append(begins[-1] + document.tokens - 1)
    longest = max(document.tokens for document in store.documents)
    # what is drawn but not committed: an open part, a group, a batch of the tokenizer
    bound = PART + 60 + 100 + 2 * longest
    assert store.count > 5 * bound
    assert all(begin - done <= bound for begin, done in zip(begins, source.committed, strict=False))
    assert len(set(source.committed)) >= len(store.table.manifest["parts"]) - 2


@pytest.mark.pipeline
def test_four_times_the_text_needs_no_more_memory(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.text.tokenizer._BATCH_CHARACTERS", 1000)
    peaks = []
    for count in (10, 60, 240):  # the first to warm up
        tracemalloc.start()
        build_entries(
            lm,
            Watched(count, tmp_path / str(count)),
            tmp_path / str(count),
            dtype="float32",
            part_rows=500,
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1]
