"""What the paper ruled out: soft labels, places in the text, ensembles of LMs."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knnlm.api import Datastore
from knnlm.datastore.entries import Entries, open_entries
from knnlm.evaluation.calibration import TemperedLM
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, fit_weights, mix, mix_several
from knnlm.experiments.derive import derive
from knnlm.files import fingerprint, read_json
from knnlm.models import TRAINING_RECORD as RECORD
from knnlm.models.load import LanguageModel
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import joined_tokens
from knnlm.text.windows import cut_windows
from knnlm.training.soft_targets import soft_targets
from knnlm_paper.conditions import KNN, Ensemble, TokenList
from knnlm_paper.conditions.ensemble.condition import FACTORS
from knnlm_paper.conditions.place_in_text.places import (
    context_lengths,
    correlation,
    quantities_by_place,
)
from knnlm_paper.experiments.ensembling import two_stores, with_lms, with_one
from knnlm_paper.experiments.ruled_out import by_choice
from knnlm_paper.measuring.base_lm import base_logs
from knnlm_paper.measuring.teaching import (
    SoftLabels,
    TeachingNeighbors,
    entries_of_stream,
    soft_labels,
    teacher_point,
)
from knnlm_paper.measuring.workspace import PaperWorkspace
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import texts
from tests.paper.conftest import Smoke


@pytest.fixture
def many(lm: LanguageModel, texts: dict[str, Path], tmp_path: Path) -> Entries:
    """A store of several documents."""
    words = texts["train"].read_text().split()
    files = []
    for part in range(3):
        files.append(tmp_path / f"{part}.txt")
        files[-1].write_text(" ".join(words[part * 60 : (part + 1) * 60]))
    return Datastore.build(lm, files, tmp_path / "many").entries


def workspace_of(smoke: Smoke) -> PaperWorkspace:
    """Of the folder of the smoke run."""
    return PaperWorkspace(smoke.scale, texts(smoke.scale, None), smoke.folder / "work")


def test_every_token_of_the_stream_has_its_entry(
    many: Entries, lm: LanguageModel, tmp_path: Path
) -> None:
    stream = joined_tokens(lm.tokenizer, Files(tuple(sorted(tmp_path.glob("?.txt")))))
    rows = entries_of_stream(many.documents)
    assert len(rows) == len(stream)
    assert (rows < 0).sum() == 3
    assert np.array_equal(many.targets[rows[rows >= 0]], stream[rows >= 0])
    assert np.array_equal(rows[rows >= 0], np.arange(many.count))


def test_labels_are_what_the_lm_says_and_what_neighbors_add(
    many: Entries, lm: LanguageModel, tmp_path: Path
) -> None:
    rows = np.array([0, 5, 40])
    plain = SoftLabels(many, lm.model).labels(rows)
    states = torch.from_numpy(many.key("ffn").gather(rows).astype(np.float32))
    assert torch.allclose(plain, lm.model.get_output_embeddings()(states).softmax(1))
    table = soft_targets(many, "att", "l2", 8, 1.0, tmp_path / "soft")
    mixed = SoftLabels(many, lm.model, TeachingNeighbors(lambda: table, 1.0, 0.25)).labels(rows)
    assert torch.allclose(mixed.sum(1), torch.ones(3), atol=2e-3)
    added = torch.zeros_like(plain)
    words, shares = (table.columns[name].gather(rows) for name in ("words", "shares"))
    for row, word in np.ndindex(words.shape):
        added[row, words[row, word]] += float(shares[row, word])
    assert torch.allclose(mixed, 0.75 * plain + 0.25 * added, atol=1e-6)


def test_the_loss_leaves_out_what_nothing_predicts(many: Entries, lm: LanguageModel) -> None:
    teacher = SoftLabels(many, lm.model)
    places = np.arange(6)[None]
    logits = torch.randn(1, 6, many.vocab_size, requires_grad=True)
    loss = teacher.loss(logits, places)
    loss.backward()
    labels = teacher.labels(teacher.entries[places[0, 1:]])
    assert loss.item() == pytest.approx(
        -(labels * logits[0, 1:].log_softmax(1)).sum(1).mean().item(), rel=1e-5
    )
    assert logits.grad is not None
    assert not logits.grad[0, 0].any()


@given(st.lists(st.integers(2, 40), min_size=1, max_size=4), st.integers(1, 9), st.data())
def test_contexts_are_those_of_the_windows(
    lengths: list[int], window: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, window))
    found = context_lengths(lengths, window, stride)
    wanted = []
    for length in lengths:
        for place in range(1, length):
            (w,) = [w for w in cut_windows(length, window, stride) if w.first <= place <= w.stop]
            wanted.append(place - w.start)
    assert found.tolist() == wanted
    assert found.max() <= window


def test_a_correlation_is_pearsons_and_its_interval_covers_it() -> None:
    rng = np.random.default_rng(0)
    x, documents = rng.normal(size=900), np.repeat(np.arange(30), 30)
    y = 0.5 * x + rng.normal(size=900)
    found = correlation(x, y, documents)
    assert found is not None
    assert found.r == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found.low < found.r < found.high
    assert found.low > 0.3
    none = correlation(x, rng.normal(size=900), documents)
    assert none is not None
    assert none.low < 0 < none.high
    assert correlation(np.ones(900), y, documents) == (0.0, 0.0, 0.0)
    assert correlation(x[:0], y[:0], documents[:0]) is None


def test_weights_of_several_are_no_worse_on_validation_than_those_of_fewer(smoke: Smoke) -> None:
    sizes = range(1, len(smoke.scale.ruled_out.ensemble) + 1)
    found = [smoke.results.measurement(with_lms(smoke.scale, n)) for n in sizes]
    for points in ([r.own_tau for r in found], [r.on_calibrated for r in found]):
        ppls = [point.valid_ppl for point in points]
        assert all(more <= fewer * (1 + 1e-9) for fewer, more in itertools.pairwise(ppls))
        assert all(
            sum(point.shares) + getattr(point, "unigrams", 0) == pytest.approx(1)
            for point in points
        )
    assert found[0].own_tau.valid_ppl <= found[0].base.valid_ppl


def test_neighbors_alone_in_an_ensemble_are_the_knn_lm(smoke: Smoke) -> None:
    retrieval = exactly(paper_retrieval(smoke.scale))
    alone = smoke.results.measurement(Ensemble((), (retrieval,)))
    knn = smoke.results.measurement(KNN(retrieval))
    assert alone.own_tau.ppl == pytest.approx(knn.own_tau.ppl, rel=1e-5)
    assert alone.on_calibrated.valid_ppl <= knn.on_calibrated.valid_ppl * (
        1 + 1e-6
    )  # T may change there
    both = smoke.results.measurement(two_stores(smoke.scale))
    assert both.own_tau.valid_ppl <= knn.own_tau.valid_ppl * (1 + 1e-6)


def test_calibrated_lms_are_mixed_at_temperatures_that_fit_the_mixture(smoke: Smoke) -> None:
    """The equation of ensemble/measure.py, written out; no factor is better on validation text than
    the one chosen."""
    found, workspace = smoke.results.measurement(with_one("2V")).on_calibrated, workspace_of(smoke)
    store = workspace.plain("main").store
    bases = {lm: base_logs(workspace, lm, None, store.targets) for lm in ("main", "2V")}
    ppls = {}
    for factor in FACTORS:
        each: dict[str, list[np.ndarray]] = {"valid": [], "test": []}
        for lm, base in bases.items():
            head = workspace.lms.model(lm).model
            for split, q in zip(each, workspace.queries(lm), strict=True):
                at = factor * base.calibration.temperature
                each[split].append(TemperedLM(head, q.key("ffn").all(), q.targets).logprobs(at))
        for split, q in zip(each, workspace.queries("main"), strict=True):
            counts = np.bincount(store.targets, minlength=store.vocab_size) + 1
            each[split].append(np.log(counts / counts.sum())[q.targets])
        shares = fit_weights(each["valid"])
        ppls[factor] = perplexity(mix_several(each["valid"], shares))
        if factor == found.factor:
            assert [*found.shares, found.unigrams] == pytest.approx(shares, abs=1e-4)
            assert found.ppl == pytest.approx(
                perplexity(mix_several(each["test"], shares)), rel=1e-6
            )
    assert found.valid_ppl == pytest.approx(min(ppls.values()), rel=1e-9)
    alone = smoke.results.measurement(with_one("2V")).base.calibrated_valid_ppl
    assert found.valid_ppl < alone


def test_ensembles_know_what_their_lms_are(smoke: Smoke) -> None:
    base = smoke.results.measurement(KNN(paper_retrieval(smoke.scale))).lm
    shape = smoke.scale.shape("main")
    more = {"2V": shape.vocab_size * shape.width, "3V": 2 * shape.vocab_size * shape.width}
    ensembles = smoke.results.of_kind(Ensemble)
    assert any(ensemble.others for ensemble in ensembles)
    for ensemble in ensembles:
        others = smoke.results.measurement(ensemble).others
        assert [(other.name, other.kept) for other in others] == list(ensemble.others)
        for other in others:
            assert other.lm.parameters == base.parameters + more.get(other.name, 0)
            assert other.ppl > 1


def test_an_ensemble_is_the_mixture_of_its_lms_own_probabilities(smoke: Smoke) -> None:
    states = smoke.folder / "work" / "states"
    logs = [
        [
            open_entries(next((states / lm).glob(f"{split}-*"))).lm_logprob.astype(np.float64)
            for lm in ("main", "2V")
        ]
        for split in ("valid", "test")
    ]
    found = smoke.results.measurement(with_one("2V"))
    lam = fit_lambda(logs[0][0], logs[0][1])
    assert found.own_tau.shares == pytest.approx([1 - lam, lam], abs=1e-4)
    assert found.own_tau.ppl == pytest.approx(
        perplexity(mix(logs[1][0], logs[1][1], lam)), rel=1e-6
    )


def test_the_neighbors_that_teach_are_those_of_the_best_tau(smoke: Smoke) -> None:
    workspace = workspace_of(smoke)
    best = smoke.results.measurement(KNN(exactly(paper_retrieval(smoke.scale)))).own_tau
    point = teacher_point(workspace, "main", None)
    assert (point.tau, point.lam) == pytest.approx((best.temperature, best.lam), rel=1e-3)
    teacher = soft_labels(workspace, "knn-lm")
    assert teacher.describe()["temperature"] == point.tau
    assert teacher.table is not None
    assert teacher.table.manifest["meta"]["temperature"] == point.tau
    assert soft_labels(workspace, "lm").describe() == {"store": teacher.store.fingerprint}


def test_lms_begin_and_learn_as_they_say(smoke: Smoke) -> None:
    """An LM trained otherwise in that folder would be refused by its recipe."""
    folder, found = smoke.folder / "work", texts(smoke.scale, None)
    workspace = workspace_of(smoke)
    main = workspace.lms.model("main")
    lessons: dict[str, dict[str, object]] = {
        "memorised": {"begin": main.fingerprint},
        "taught-by-lm": {"teacher": soft_labels(workspace, "lm").describe()},
        "taught-by-knn-lm": {"teacher": soft_labels(workspace, "knn-lm").describe()},
    }
    for name, lesson in lessons.items():
        lm = smoke.scale.lm(name)
        wanted = {
            "preset": lm.preset.settings(),
            "seed": lm.seed,
            "train": found.train.describe(),
            "valid": found.stop.describe(),
            **lesson,
        }
        assert read_json(folder / "lm" / name / RECORD)["recipe"] == fingerprint(wanted)


def test_lists_of_retrieved_words_cover_what_neighbors_cover(smoke: Smoke) -> None:
    few, more = (smoke.results.measurement(TokenList(k=k)) for k in smoke.scale.ruled_out.lists)
    assert few.coverage < more.coverage
    knn = smoke.results.measurement(KNN(exactly(paper_retrieval(smoke.scale))))
    for duplicates in (True, False):
        found = smoke.results.measurement(by_choice(smoke.scale, duplicates))
        assert found.coverage == knn.coverage


def test_places_are_those_of_the_entries(many: Entries, lm: LanguageModel, tmp_path: Path) -> None:
    files = sorted(tmp_path.glob("?.txt"))
    whole = Datastore.build(lm, files, tmp_path / "scored", logprobs=True).entries
    rows = np.sort(np.random.default_rng(0).choice(many.count, 120, replace=False))
    drawn = derive(many, tmp_path / "drawn", many.keys, {}, ids=rows)
    places = drawn.table.columns["position"].all().astype(float)
    found = quantities_by_place(drawn, whole, -places)["document"]
    assert found.gain.correlation is not None
    assert found.gain.correlation.r == pytest.approx(-1)
    assert found.gain.tokens == 120
    thirds = found.gain.thirds
    assert sum(thirds.first.sum) / sum(thirds.first.tokens) > -places.mean()
    assert sum(thirds.last.sum) / sum(thirds.last.tokens) < -places.mean()
    every = whole.table.columns["position"].all()
    assert found.loss.tokens == whole.count
    assert found.loss.correlation is not None
    truth = np.corrcoef(every, -whole.lm_logprob)[0, 1]
    assert found.loss.correlation.r == pytest.approx(truth)
    window, stride = many.meta["window"], many.meta["stride"]
    seen = context_lengths([d.tokens for d in many.documents], window, stride)[rows].astype(float)
    again = quantities_by_place(drawn, whole, seen)["window"].gain
    later = places > window
    assert again.tokens == later.sum()
    assert again.correlation is not None
    assert again.correlation.r == pytest.approx(1 if len(set(seen[later])) > 1 else 0)
