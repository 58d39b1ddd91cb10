"""The work that conditions share: trained, read, drawn, derived and searched as asked for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import knnlm.experiments.lms as lms_module
from knnlm.errors import KnnlmError
from knnlm.experiments import AboutLM, BaseLM, ExistingLM, SearchSpec, Texts, Workspace
from knnlm.experiments.derive import normalized
from knnlm.experiments.lms import LMs
from knnlm.models.presets import SMOKE
from knnlm.search.exact import exact_search
from knnlm.training.language_model import train
from tests.experiments.coverage import Coverage, workspace_of

FEW = replace(SMOKE, width=16, heads=2, steps=8, valid_every=4, warmup=2, keep=(4, 8))
INDEX = SearchSpec(exact=False, factory="IVF8,Flat", nprobe=1)


@pytest.fixture
def workspace(tmp_path: Path, prose: Texts, main_lm: list[ExistingLM]) -> Workspace:
    return workspace_of(tmp_path, prose, main_lm, [Coverage(16, INDEX)])


def test_a_search_for_fewer_reads_the_first_of_the_largest(workspace: Workspace) -> None:
    near = workspace.neighbors(INDEX, "test", 4)
    most = workspace.neighbors(INDEX, "test", 16)
    assert np.array_equal(near.read(0, 99).ids, most.read(0, 99).ids[:, :4])
    kept = workspace.data(INDEX).store.path / "cache" / "neighbors"
    assert {path.name.rpartition("-")[2] for path in kept.iterdir()} == {"k16"}


def test_an_exact_search_finds_the_nearest(workspace: Workspace) -> None:
    spec = SearchSpec(state="ffn", metric="ip")
    data = workspace.data(spec)
    near = workspace.neighbors(spec, "valid", 5).read(0, data.valid.count)
    truth = exact_search(data.valid.key("ffn").all(), data.store.key("ffn"), 5, "ip")
    assert np.array_equal(near.ids, truth.ids)


def test_recall_is_of_the_exact_neighbors(workspace: Workspace) -> None:
    recall = workspace.recall(INDEX, 16)
    assert recall is not None
    assert 0 < recall < 1
    assert workspace.recall(INDEX._replace(nprobe=8), 16) == 1
    assert workspace.recall(SearchSpec(), 16) == 1
    assert workspace.recall(INDEX._replace(zeros=0.2), 16) is None


def test_exact_scores_are_those_of_the_stored_states(workspace: Workspace) -> None:
    spec = SearchSpec(exact=False, factory="PQ4x4", nprobe=1)
    data = workspace.data(spec)
    near = workspace.neighbors(spec, "test", 8, "exact").read(0, 20)
    query, entry = data.test.key("att").all()[0], data.store.key("att").gather(near.ids[0])
    distances = ((query.astype(np.float32) - entry.astype(np.float32)) ** 2).sum(1)
    assert near.scores[0] == pytest.approx(-distances, rel=1e-4)
    approximate = workspace.neighbors(spec, "test", 8).read(0, 20)
    assert not np.allclose(near.scores, approximate.scores)


def test_queries_are_drawn_once_and_in_order(
    tmp_path: Path, prose: Texts, main_lm: list[ExistingLM]
) -> None:
    workspace = workspace_of(tmp_path, prose, main_lm, queries=30)
    valid, test = workspace.queries("main")
    assert valid.count == test.count == 30
    whole = workspace.entries("main", None, "test").key("att").all()
    rows = [np.flatnonzero((whole == state).all(axis=1))[0] for state in test.key("att").all()]
    assert rows == sorted(rows)
    again, _ = workspace_of(tmp_path, prose, main_lm, queries=30).queries("main")
    assert again.fingerprint == valid.fingerprint


def test_damaged_queries_are_read_again(workspace: Workspace) -> None:
    whole = workspace.entries("main", None, "test")
    before = whole.key("att").all().copy()
    (file,) = whole.path.rglob("att.npy")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert np.array_equal(workspace.entries("main", None, "test").key("att").all(), before)


def test_damaged_queries_behind_a_link_are_not_deleted(
    workspace: Workspace, tmp_path: Path
) -> None:
    folder = workspace.entries("main", None, "test").path
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert workspace.entries("main", None, "test").count  # it may be read there
    (file,) = (tmp_path / "elsewhere").rglob("att.npy")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(KnnlmError, match=r"test is a symbolic link, and nothing is written or del"):
        workspace.entries("main", None, "test")
    assert file.is_file()


def test_datastores_are_derived_as_asked_for(workspace: Workspace) -> None:
    plain = workspace.data(SearchSpec(state="ffn"))
    part = workspace.data(SearchSpec(state="ffn", fraction=0.25, draw=1))
    assert part.store.count == round(plain.store.count * 0.25)
    assert part.test.fingerprint == plain.test.fingerprint
    normed = workspace.data(SearchSpec(state="ffn-normed")).test.key("ffn").all()
    expected = normalized(plain.test.key("ffn").all().astype(np.float32))
    assert np.allclose(normed, expected, atol=2e-3)
    reduced = workspace.data(SearchSpec(state="ffn", width=4))
    assert {e.key("ffn").type.width for e in (reduced.store, reduced.valid, reduced.test)} == {4}
    searched = workspace.searched(INDEX._replace(zeros=0.5))
    assert searched.count == 2 * plain.store.count
    assert not searched.targets[plain.store.count :].any()


def test_lms_are_trained_once_and_kept_at_updates(
    tmp_path: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []

    def counting(*args: Any, **options: Any) -> Any:
        calls.append(args[3])
        return train(*args, **options)

    monkeypatch.setattr(lms_module, "train", counting)
    first = BaseLM("main", replace(FEW, vocab_size=300))
    lms = LMs(
        [first, replace(first, name="further", begin="main", seed=3)],
        prose,
        lambda name: tmp_path / name,
    )
    weights = [
        {name: value.clone() for name, value in lms.model(*which).model.state_dict().items()}
        for which in (("main", 4), ("main", None), ("further", None), ("main", 4))
    ]
    assert calls == [tmp_path / "main", tmp_path / "further"]
    assert all(torch.equal(value, weights[3][name]) for name, value in weights[0].items())
    assert any(not torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert lms.about("main", 4).step == 4
    assert lms.about("main").width == 16
    assert lms.seed("further") == 3
    assert lms.seconds > 0
    assert lms.trained("main").steps == 8


def test_an_lm_that_exists_is_opened(workspace: Workspace, tiny_model: Path) -> None:
    lms = workspace.lms
    assert lms.about("main") == AboutLM(
        parameters=sum(p.numel() for p in lms.model("main").model.parameters())
    )
    assert lms.training_seconds("main") == 0
    assert lms.seed("main") is None
