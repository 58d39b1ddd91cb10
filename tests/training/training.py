"""A base LM so small that a test can train it many times, and ways to stop its training."""

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from knnlm.models.presets import SMOKE, Preset
from knnlm.text.documents import Source
from knnlm.text.local_files import Files
from knnlm.training.checkpoint import save_run
from knnlm.training.language_model import TrainingResult, train

WORDS = (
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "sat",
    "ran",
    "flew",
    "on",
    "under",
    "mat",
    "tree",
    "and",
    "then",
    "slept",
)
TINY = dataclasses.replace(
    SMOKE,
    vocab_size=300,
    width=16,
    heads=2,
    context=16,
    dropout=0.1,
    attention_dropout=0.1,
    batch=4,
    steps=24,
    warmup=4,
    weight_decay=0.1,
    valid_every=10,
    valid_tokens=200,
)


def write_text(file: Path, seed: int, words: int = 2000) -> Files:
    """Words at random, in lines of ten."""
    rng = random.Random(seed)
    file.write_text("".join(rng.choice(WORDS) + "\n "[i % 10 != 9] for i in range(words)))
    return Files((file,))


@dataclasses.dataclass
class Texts:
    """A training and a validation text."""

    train: Source
    valid: Source

    def into(
        self, out: Path, preset: Preset = TINY, seed: int = 0, save_every: int | None = None
    ) -> TrainingResult:
        """Train on them."""
        return train(self.train, self.valid, preset, out, seed=seed, save_every=save_every)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, byte by byte."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def interrupt_after(saves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when training has saved itself `saves` times."""
    counted: Iterator[int] = iter(range(1, saves + 1))

    def save_then_stop(*args: object) -> None:
        save_run(*args)  # type: ignore[arg-type]
        if next(counted) == saves:
            raise KeyboardInterrupt

    monkeypatch.setattr("knnlm.training.loop.save_run", save_then_stop)
