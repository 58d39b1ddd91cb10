"""Texts to train on, and an unfinished run."""

from pathlib import Path

import pytest

from tests.training.training import Texts, interrupt_after, write_text


@pytest.fixture
def prose(tmp_path: Path) -> Texts:
    """A training and a validation text."""
    return Texts(write_text(tmp_path / "train.txt", 1), write_text(tmp_path / "valid.txt", 2, 300))


@pytest.fixture
def unfinished(tmp_path: Path, prose: Texts) -> Path:
    """A folder with a run on `prose` that was stopped by Ctrl-C."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            prose.into(tmp_path / "unfinished", save_every=3)
    return tmp_path / "unfinished"
