"""The one search for τ on what the paper measures: no worse on validation text than the searches
that calibrated LMs, learned components and all entries voting once had."""

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
from knnlm_paper.conditions import KNN, Learned
from knnlm_paper.conditions import FullDatastore as AllEntries
from knnlm_paper.conditions.learned.learner import Learner
from knnlm_paper.measuring.base_lm import base_logs
from knnlm_paper.measuring.workspace import PaperWorkspace
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import texts
from tests.paper.conftest import Smoke

NO_WORSE = 1 + 1e-5
GRID = tuple(4.0**e for e in range(-6, 7))


@pytest.fixture
def workspace(smoke: Smoke) -> PaperWorkspace:
    """Of the folder of the smoke run: what it measures again is read from there."""
    return PaperWorkspace(smoke.scale, texts(smoke.scale, None), smoke.folder / "work")


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
    """The first condition of every component, metric and state."""
    first: dict[tuple[str, str, str, bool], Learned] = {}
    for row in smoke.results.of_kind(Learned):
        first.setdefault((row.component, row.metric, row.state, row.fitted), row)
    return list(first.values())


def test_learned_components_are_no_worse_on_validation(
    smoke: Smoke, workspace: PaperWorkspace
) -> None:
    conditions = some_learned(smoke)
    components = {"head", "mixture-of-softmaxes", "mlp", "clusters"}
    assert {condition.component for condition in conditions} == components
    for condition in conditions:
        component = workspace.tool(Learner).learned(condition).component
        scores = component.target_scores(workspace.plain(*condition.lm).valid)
        base, r = workspace.base(*condition.lm), smoke.results.measurement(condition)
        for point, lm in ((r.own_tau, base.valid), (r.on_calibrated, base.calibrated_valid)):
            before = grid_then_bounded(lm, scores.logprobs, component.tau)
            assert point.valid_ppl <= before * NO_WORSE, condition.name


def test_all_entries_voting_are_no_worse_on_validation(
    smoke: Smoke, workspace: PaperWorkspace
) -> None:
    """Before: a grid of some rows, then quarter octaves around its best."""
    conditions = smoke.results.of_kind(AllEntries)
    assert len(conditions) == 4
    for condition in conditions:
        base, data = workspace.base(*condition.lm), workspace.plain(*condition.lm)
        component = FullDatastore(data.store, condition.state, condition.metric)
        scores, r = component.target_scores(data.valid), smoke.results.measurement(condition)
        some: NDArray[np.int64] = evenly_spaced(data.valid.count, 512)
        coarse = [scores.unit * factor for factor in GRID[:9]]
        looked = scores.sample(some).several(coarse)
        for point, lm in ((r.own_tau, base.valid), (r.on_calibrated, base.calibrated_valid)):
            near = coarse[int(np.argmin([mixed_ppl(lm[some], logs) for logs in looked]))]
            around = scores.several([near * 2 ** (e / 4) for e in range(-4, 5)])
            before = min(mixed_ppl(lm, logs) for logs in around)
            assert point.valid_ppl <= before * NO_WORSE, condition.name


def test_calibrated_lms_are_no_worse_on_validation(smoke: Smoke, workspace: PaperWorkspace) -> None:
    stored = workspace.plain("main").store.targets
    measured = smoke.results.measurement(KNN(exactly(paper_retrieval(smoke.scale)))).base
    for name in ("main", smoke.scale.seeds[1], "2V", "memorised"):
        valid, _ = workspace.queries(name)
        unigrams = unigram_logprobs(stored, valid.targets, valid.vocab_size)
        model = workspace.lms.model(name).model
        scores = TemperedLM(model, valid.key("ffn"), valid.targets)

        def ppl(temperature: float, scores: TemperedLM = scores, u: Logs = unigrams) -> float:
            return mixed_ppl(scores.logprobs(temperature), u)

        before = bounded(ppl, -math.log(8), math.log(8), 1e-3)
        calibration = base_logs(workspace, name, None, stored).calibration
        assert calibration.valid_ppl <= before * NO_WORSE, name
        if name == "main":
            assert measured.calibrated_valid_ppl == pytest.approx(calibration.valid_ppl, rel=1e-9)
