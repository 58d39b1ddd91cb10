"""Settings that distill quickly, and ways to read what a command printed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from knnlm.cli.main import run
from knnlm.components.base import QueryArrays
from knnlm.datastore.entries import Entries

QUICK: dict[str, Any] = {"lr": 1e-2, "epochs": 2}
HEAD: dict[str, Any] = {"kind": "head", "name": "head", **QUICK}
HEAD_WORDS = ["--kind", "head", "--name", "head", "--lr", "0.01", "--epochs", "1"]


def json_of(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """What a command prints with --json."""
    capsys.readouterr()
    assert run([*map(str, words), "--json"]) == 0
    fields: dict[str, Any] = json.loads(capsys.readouterr().out)
    return fields


def error_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The sentence with which a command refuses."""
    capsys.readouterr()
    assert run([*map(str, words)]) in (1, 2)
    return capsys.readouterr().err.strip().splitlines()[-1]


def first_tokens(text: Entries, keys: tuple[str, ...]) -> tuple[torch.Tensor, QueryArrays]:
    """The first tokens of a text, and the hidden states that predicted them."""
    rows = np.flatnonzero(text.table.columns["document"].all() == 0)[:12]
    targets = text.targets[rows]
    tokens = np.concatenate([[text.documents[0].first_token], targets]).astype(np.int64)
    return torch.from_numpy(tokens), QueryArrays(text.states(keys)[rows], targets)


def files_in(folder: Path) -> dict[str, bytes]:
    """The files of a component, byte by byte."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".lock"}
