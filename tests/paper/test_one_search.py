"""The one search for τ on what the paper measures: no worse on validation text than the searches
that calibrated LMs, learned components and all rows voting once had."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from knnlm.components.base import Logs
from knnlm.components.full_datastore import FullDatastore
from knnlm.datastore.entries import evenly_spaced
from knnlm.evaluation.calibration import TemperedLM, unigram_logprobs
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm_paper.experiments import recipes
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.measure import Bench
from knnlm_paper.numbers import base_of
from knnlm_paper.rows import Learned, Unmasked
from knnlm_paper.scales import texts
from knnlm_paper.teaching import soft_labels
from knnlm_paper.workshop import Workshop
from tests.paper.conftest import Smoke

NO_WORSE = 1 + 1e-5
GRID = tuple(4.0**e for e in range(-6, 7))


@pytest.fixture
def bench(smoke: Smoke) -> Bench:
    """Of the folder of the smoke run: what it measures again is read from there."""
    found = texts(smoke.scale, None)
    return Bench(Workshop(smoke.scale, found, smoke.folder / "work", {}, soft_labels))


def mixed_ppl(lm: Logs, logs: Logs) -> float:
    return perplexity(mix(lm, logs, fit_lambda(lm, logs)))


def bounded(ppl: Callable[[float], float], low: float, high: float, xatol: float) -> float:
    """The lowest of a bounded search over log τ."""
    best = minimize_scalar(
        lambda x: ppl(math.exp(x)), bounds=(low, high), method="bounded", options={"xatol": xatol}
    )
    return ppl(math.exp(best.x))


def grid_then_bounded(lm: Logs, logs_at: Callable[[float], Logs], own: float) -> float:
    """A grid of some rows, then a bounded search around its best; no worse than the own τ."""
    some: NDArray[np.int64] = evenly_spaced(len(lm), 2048)
    coarse = [mixed_ppl(lm[some], logs_at(own * factor)[some]) for factor in GRID]
    near = own * GRID[int(np.argmin(coarse))]
    reach = math.log(4)

    def ppl(tau: float) -> float:
        return mixed_ppl(lm, logs_at(tau))

    around = bounded(ppl, math.log(near) - reach, math.log(near) + reach, 0.05)
    return min(around, ppl(near), ppl(own))


def some_learned(smoke: Smoke) -> Sequence[Learned]:
    """The first row of every kind, metric and state."""
    rows: dict[tuple[str, str, str, bool], Learned] = {}
    for recipe in recipes(smoke.scale):
        for row in recipe.rows:
            if isinstance(row, Learned):
                rows.setdefault((row.kind, row.metric, row.state, row.fitted), row)
    return list(rows.values())


def test_learned_components_are_no_worse_on_validation(smoke: Smoke, bench: Bench) -> None:
    rows = some_learned(smoke)
    assert {row.kind for row in rows} == {"embeddings", "softmaxes", "network", "clusters"}
    for row in rows:
        component = bench.learned.apprentice.taught(row).component
        scores = component.target_scores(bench.workshop.plain(*row.lm).valid)
        base, results = bench.base(*row.lm), smoke.records[row.name]["results"]
        for field, lm in (("tuned", base.valid), ("on_calibrated", base.calibrated_valid)):
            before = grid_then_bounded(lm, scores.logprobs, component.tau)
            assert results[field]["valid_ppl"] <= before * NO_WORSE, (row.name, field)


def test_all_rows_voting_are_no_worse_on_validation(smoke: Smoke, bench: Bench) -> None:
    """Before: a grid of some rows, then quarter octaves around its best."""
    rows = [row for recipe in recipes(smoke.scale) for row in recipe.rows]
    for row in {row.name: row for row in rows if isinstance(row, Unmasked)}.values():
        base, m = bench.base(*row.lm), bench.workshop.plain(*row.lm)
        scores = FullDatastore(m.store, row.state, row.metric).target_scores(m.valid)
        some: NDArray[np.int64] = evenly_spaced(m.valid.count, 512)
        coarse = [scores.unit * factor for factor in GRID[:9]]
        looked = scores.sample(some).several(coarse)
        for field, lm in (("tuned", base.valid), ("on_calibrated", base.calibrated_valid)):
            near = coarse[int(np.argmin([mixed_ppl(lm[some], logs) for logs in looked]))]
            around = scores.several([near * 2 ** (e / 4) for e in range(-4, 5)])
            before = min(mixed_ppl(lm, logs) for logs in around)
            valid_ppl = smoke.records[row.name]["results"][field]["valid_ppl"]
            assert valid_ppl <= before * NO_WORSE, (row.name, field)


def test_calibrated_lms_are_no_worse_on_validation(smoke: Smoke, bench: Bench) -> None:
    stored = bench.workshop.plain("main", None).store.targets
    arm = smoke.records[exactly(paper_arm(smoke.scale)).name]["results"]["base"]
    for name in ("main", smoke.scale.seeds[1], "2V", "memorised"):
        valid, _ = bench.workshop.queries(name, None)
        unigrams = unigram_logprobs(stored, valid.targets, valid.vocab_size)
        model = bench.workshop.lms.model(name, None).model
        scores = TemperedLM(model, valid.key("ffn"), valid.targets)

        def ppl(temperature: float, scores: TemperedLM = scores, u: Logs = unigrams) -> float:
            return mixed_ppl(scores.logprobs(temperature), u)

        before = bounded(ppl, -math.log(8), math.log(8), 1e-3)
        calibration = base_of(bench.workshop, name, None, stored).calibration
        assert calibration.valid_ppl <= before * NO_WORSE, name
        if name == "main":
            assert arm["calibrated_valid_ppl"] == pytest.approx(calibration.valid_ppl, rel=1e-9)
