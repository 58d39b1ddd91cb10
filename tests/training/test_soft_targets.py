"""Neighbors as teachers: soft targets are what neighbors in other documents vote for, made once,
resumed, learned from."""

from pathlib import Path

import numpy as np
import pytest
import torch

import knnlm.training.soft_targets as module
from knnlm.components.knn import vocabulary_logprobs
from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError
from knnlm.hidden_states.output_head import output_embedding
from knnlm.models.load import LanguageModel
from knnlm.search.other_documents import neighbors_in_other_documents
from knnlm.text.local_files import Files
from knnlm.training.fit import FitSettings
from knnlm.training.initial import initial_module
from knnlm.training.kinds import ComponentSpec
from knnlm.training.learn import learn
from knnlm.training.objectives import SoftTargetLoss
from knnlm.training.soft_targets import KEPT, soft_targets
from tests.search.test_other_documents import many as many


def test_soft_targets_are_the_votes_of_other_documents(many: Entries, tmp_path: Path) -> None:
    table = soft_targets(many, "att", "l2", 8, 0.5, tmp_path / "soft")
    words, shares = table.columns["words"].all(), table.columns["shares"].all().astype(np.float64)
    assert np.allclose(shares.sum(1), 1, atol=1e-2)
    # eight neighbors have at most eight tokens
    assert np.allclose(table.columns["kept"].all(), 1, atol=1e-5)
    for first, near in neighbors_in_other_documents(many, "att", 8, "l2"):
        truth = vocabulary_logprobs(near, many.targets, many.vocab_size, 0.5).exp().double().numpy()
        for row, p in enumerate(truth, start=first):
            assert np.allclose(p[words[row]], shares[row], atol=2e-3)
            assert shares[row].argmax() == 0


def test_an_interrupted_table_resumes(
    many: Entries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = soft_targets(many, "att", "l2", 4, 1.0, tmp_path / "whole")
    monkeypatch.setattr(module, "_COMMIT_ROWS", 1)
    real = module._likeliest
    seen = 0

    def dies(*given: object) -> dict[str, object]:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise KeyboardInterrupt
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("knnlm.search.other_documents._QUERIES", 40)
    monkeypatch.setattr(module, "_likeliest", dies)
    with pytest.raises(KeyboardInterrupt):
        soft_targets(many, "att", "l2", 4, 1.0, tmp_path / "cut")
    again = soft_targets(many, "att", "l2", 4, 1.0, tmp_path / "cut")
    for name in ("words", "shares"):
        assert np.array_equal(again.columns[name].all(), whole.columns[name].all())


def test_a_head_that_is_only_taught_comes_nearer_to_its_teacher(
    many: Entries, lm: LanguageModel, texts: dict[str, Path], tmp_path: Path
) -> None:
    """The cross-entropy against q falls well below that of the start."""
    table = soft_targets(many, "att", "l2", 8, 1.0, tmp_path / "soft")
    objective = SoftTargetLoss(1.0, table.columns["words"], table.columns["shares"])
    words = torch.from_numpy(objective.tokens.all()).long()
    shares = torch.from_numpy(objective.shares.all()).float()
    states = torch.from_numpy(many.key("att").all().astype(np.float32))

    def against_teacher(component: object) -> float:
        logs = component.logprobs(states).detach()  # type: ignore[attr-defined]
        return -float((shares * logs.gather(1, words)).sum(1).mean())

    start = initial_module(ComponentSpec(), output_embedding(lm.model).weight)
    before = against_teacher(start.component())
    valid = build_entries(lm, Files((texts["valid"],)), tmp_path / "valid", logprobs=True)
    head = learn(
        start,
        many,
        valid,
        tmp_path / "head",
        FitSettings(lr=1e-2, epochs=5, patience=99),
        objective=objective,
        about={},
    )
    assert head.fit.best_step > 0
    assert against_teacher(head.component) < before - 0.2


def test_one_document_has_no_teachers(store: Entries, tmp_path: Path) -> None:
    with pytest.raises(KnnlmError, match="no neighbors elsewhere"):
        soft_targets(store, "att", "l2", 4, 1.0, tmp_path / "soft")


def test_a_share_out_of_range_is_refused(many: Entries, tmp_path: Path) -> None:
    table = soft_targets(many, "att", "l2", 4, 1.0, tmp_path / "soft")
    for share in (0.0, 2.0):
        with pytest.raises(KnnlmError, match="choose above 0 to 1"):
            SoftTargetLoss(share, table.columns["words"], table.columns["shares"])
    assert table.columns["words"].type.width == KEPT


@pytest.fixture
def store(tmp_path: Path, lm: LanguageModel) -> Entries:
    from tests.conftest import prose

    (tmp_path / "one.txt").write_text(prose(0, 3))
    return build_entries(lm, Files((tmp_path / "one.txt",)), tmp_path / "store")
