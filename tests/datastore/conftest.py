"""A tiny model that reads, and builds that are cut into several parts."""

import os
from pathlib import Path

import pytest

from knnlm.datastore.build import build_entries
from knnlm.models.load import LanguageModel

from .helpers import library


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is flushed to the real disk: no test pulls the plug, and those that pretend to bring
    their own disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few tokens, so that a short text has several parts, and a checkpoint after each."""
    monkeypatch.setattr("knnlm.datastore.build.GROUP_TOKENS", 60)
    monkeypatch.setattr("knnlm.datastore.build.CHECKPOINT_SECONDS", 0.0)


@pytest.fixture(scope="session")
def pristine(lm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished store of three parts with every column; tests copy it before they harm it."""
    folder = tmp_path_factory.mktemp("pristine") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knnlm.datastore.build.GROUP_TOKENS", 60)
        store = build_entries(
            lm, library(), folder, window=12, stride=5, logprobs=True, part_rows=90
        )
    assert len(store.table.manifest["parts"]) == 3
    return folder
