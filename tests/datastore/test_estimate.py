"""What a build will take, said before it starts."""

from pathlib import Path

import pytest

from knnlm.datastore.build import build_entries
from knnlm.datastore.estimate import BuildEstimate, _tokens_read
from knnlm.models.load import LanguageModel
from knnlm.text import cut_windows
from knnlm.text.documents import Document

from .helpers import Texts, sentence


def test_tokens_and_disk_are_about_what_the_build_takes(
    tmp_path: Path, lm: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    """Documents of very different length, one of them in pieces."""
    documents = [Document(f"{n}", sentence(40 * n, seed=n)) for n in range(1, 30)]
    documents += [Document("29", sentence(3000, seed=99), continues=True)]
    entries = build_entries(lm, Texts(documents), tmp_path, estimate=True)
    (line,) = [r.getMessage() for r in caplog.records if "documents, about" in r.getMessage()]
    assert line.startswith("29 documents, about ")
    tokens = int(line.split()[3].replace(",", ""))
    assert tokens == pytest.approx(entries.count, rel=0.2)
    assert "about a second" in line or "seconds" in line


def test_a_resumed_build_says_nothing_new(
    tmp_path: Path, lm: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    build_entries(lm, Texts([Document("a", sentence(50, 0))]), tmp_path)
    build_entries(lm, Texts([Document("a", sentence(50, 0))]), tmp_path, estimate=True)
    assert "documents, about" not in caplog.text


@pytest.mark.parametrize("length", [2, 9, 10, 11, 50, 333])
@pytest.mark.parametrize(("window", "stride"), [(10, 5), (10, 10), (16, 3)])
def test_the_tokens_that_run_through_the_model_are_those_of_its_windows(
    length: int, window: int, stride: int
) -> None:
    windows = list(cut_windows(length, window, stride))
    assert _tokens_read(length - 1, window, stride) == pytest.approx(
        sum(w.stop - w.start for w in windows), abs=window
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "a second"),
        (42, "42 seconds"),
        (600, "10 minutes"),
        (9000, "2 hours"),
        (3e5, "3 days"),
    ],
)
def test_the_estimate_reads_well(seconds: float, words: str) -> None:
    estimate = str(BuildEstimate(1234, 1_234_567, seconds, 98_000_000))
    assert estimate == (f"1,234 documents, about 1,200,000 tokens: about {words} and 98 MB of disk")
