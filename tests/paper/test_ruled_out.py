"""What the paper ruled out: soft labels, places in the text, ensembles of LMs."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knnlm import api
from knnlm.learning.soft import soft_targets
from knnlm.lm.documents import Files
from knnlm.lm.load import LanguageModel
from knnlm.lm.tokenizer import token_stream
from knnlm.lm.windows import windows
from knnlm.paper.located import context_lengths, correlation
from knnlm.paper.present.ruled_out import HYPOTHESES
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.recipes.ensembling import ensembles, memorised, soft_labels, two_stores, with_lms
from knnlm.paper.recipes.ruled_out import by_choice
from knnlm.paper.rows import Ensemble, Listed, Reach
from knnlm.paper.teaching import SoftLabels, rows_of_stream
from knnlm.states.store import Store, open_store
from tests.paper.conftest import Smoke


@pytest.fixture
def many(lm: LanguageModel, texts: dict[str, Path], tmp_path: Path) -> Store:
    """A store of several documents."""
    words = texts["train"].read_text().split()
    files = []
    for part in range(3):
        files.append(tmp_path / f"{part}.txt")
        files[-1].write_text(" ".join(words[part * 60 : (part + 1) * 60]))
    api.build(lm, tmp_path / "many", files)
    return open_store(tmp_path / "many")


def test_every_token_of_the_stream_has_its_row(many: Store, lm: LanguageModel, tmp_path: Path) -> None:
    stream = token_stream(lm.tokenizer, Files(tuple(sorted(tmp_path.glob("?.txt")))))
    rows = rows_of_stream(many.documents)
    assert len(rows) == len(stream)
    assert (rows < 0).sum() == 3
    assert np.array_equal(many.targets[rows[rows >= 0]], stream[rows >= 0])
    assert np.array_equal(rows[rows >= 0], np.arange(many.rows))


def test_labels_are_what_the_lm_says_and_what_neighbours_add(many: Store, lm: LanguageModel, tmp_path: Path) -> None:
    rows = np.array([0, 5, 40])
    plain = SoftLabels(many, lm.model).labels(rows)
    states = torch.from_numpy(many.key("ffn").gather(rows).astype(np.float32))
    assert torch.allclose(plain, lm.model.get_output_embeddings()(states).softmax(1))
    table = soft_targets(many, "att", "l2", 8, 1.0, tmp_path / "soft")
    mixed = SoftLabels(many, lm.model, table, 0.25).labels(rows)
    assert torch.allclose(mixed.sum(1), torch.ones(3), atol=2e-3)
    added = torch.zeros_like(plain)
    words, shares = (table.columns[name].gather(rows) for name in ("words", "shares"))
    for row, word in np.ndindex(words.shape):
        added[row, words[row, word]] += float(shares[row, word])
    assert torch.allclose(mixed, 0.75 * plain + 0.25 * added, atol=1e-6)


def test_the_loss_leaves_out_what_nothing_predicts(many: Store, lm: LanguageModel) -> None:
    teacher = SoftLabels(many, lm.model)
    places = np.arange(6)[None]
    logits = torch.randn(1, 6, many.vocab_size, requires_grad=True)
    loss = teacher.loss(logits, places)
    loss.backward()
    labels = teacher.labels(teacher.rows[places[0, 1:]])
    assert loss.item() == pytest.approx(-(labels * logits[0, 1:].log_softmax(1)).sum(1).mean().item(), rel=1e-5)
    assert logits.grad is not None
    assert not logits.grad[0, 0].any()


@given(st.lists(st.integers(2, 40), min_size=1, max_size=4), st.integers(1, 9), st.data())
def test_contexts_are_those_of_the_windows(lengths: list[int], window: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, window))
    found = context_lengths(lengths, window, stride)
    wanted = []
    for length in lengths:
        for place in range(1, length):
            (w,) = [w for w in windows(length, window, stride) if w.first <= place <= w.stop]
            wanted.append(place - w.start)
    assert found.tolist() == wanted
    assert found.max() <= window


def test_a_correlation_is_pearsons_and_its_interval_covers_it() -> None:
    rng = np.random.default_rng(0)
    x, documents = rng.normal(size=900), np.repeat(np.arange(30), 30)
    y = 0.5 * x + rng.normal(size=900)
    found = correlation(x, y, documents)
    assert found.r == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found.low < found.r < found.high
    assert found.low > 0.3
    none = correlation(x, rng.normal(size=900), documents)
    assert none.low < 0 < none.high
    assert correlation(np.ones(900), y, documents) == (0.0, 0.0, 0.0)


def test_weights_of_several_are_no_worse_on_validation_than_those_of_fewer(smoke: Smoke) -> None:
    sizes = range(1, len(smoke.scale.ruled_out.ensemble) + 1)
    found = [smoke.records[with_lms(smoke.scale, n).name]["results"] for n in sizes]
    for field in ("tuned", "on_calibrated"):
        ppls = [r[field]["valid_ppl"] for r in found]
        assert all(more <= fewer * (1 + 1e-9) for fewer, more in itertools.pairwise(ppls))
        assert all(sum(r[field]["shares"]) == pytest.approx(1) for r in found)
    assert found[0]["tuned"]["valid_ppl"] <= found[0]["base"]["valid_ppl"]


def test_neighbours_alone_in_an_ensemble_are_the_knn_lm(smoke: Smoke) -> None:
    arm = exactly(paper_arm(smoke.scale))
    alone, knn = (smoke.records[name]["results"] for name in (Ensemble((), (arm,)).name, arm.name))
    for field in ("tuned", "on_calibrated"):
        assert alone[field]["ppl"] == pytest.approx(knn[field]["ppl"], rel=1e-5)
    both = smoke.records[two_stores(smoke.scale).name]["results"]
    assert both["tuned"]["valid_ppl"] <= knn["tuned"]["valid_ppl"] * (1 + 1e-6)


def test_ensembles_know_what_their_lms_are(smoke: Smoke) -> None:
    base = smoke.records[paper_arm(smoke.scale).name]["results"]["lm"]
    shape = smoke.scale.shape("main")
    more = {"2V": shape.vocab_size * shape.width, "3V": 2 * shape.vocab_size * shape.width}
    for recipe in (ensembles, memorised, soft_labels):
        for row in recipe(smoke.scale).rows:
            for other in smoke.records[row.name]["results"]["others"]:
                assert other["parameters"] == base["parameters"] + more.get(other["name"], 0)
                assert other["ppl"] > 1


def test_lists_gain_no_more_than_they_cover(smoke: Smoke) -> None:
    few, more = (smoke.records[Listed(k=k).name]["results"] for k in smoke.scale.ruled_out.lists)
    assert few["coverage"] < more["coverage"]
    for duplicates in (True, False):
        found = smoke.records[by_choice(smoke.scale, duplicates).name]["results"]
        assert found["coverage"] == smoke.records[exactly(paper_arm(smoke.scale)).name]["results"]["coverage"]


def test_unreachable_words_are_named(smoke: Smoke) -> None:
    for lm in (*smoke.scale.seeds, *smoke.scale.widths):
        found = smoke.records[Reach(lm).name]["results"]
        assert found["words"] == smoke.scale.shape(lm).vocab_size
        assert len(found["which"]) == min(100, found["unreachable"])


def test_the_report_shows_every_hypothesis(smoke: Smoke) -> None:
    text = (smoke.folder / "RESULTS.md").read_text()
    table = text.split("## What it is not")[1].split("\n## ")[0]
    assert table.count("\n| ") == 1 + len(HYPOTHESES)
    assert "nan" not in table
