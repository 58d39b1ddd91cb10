"""Substitutes: one recipe for all sizes, never worse on validation than their parts, weights that
add up."""

from dataclasses import replace

import numpy as np
import pytest

from knnlm_paper.conditions import KNN, Combined, FullDatastore, Learned
from knnlm_paper.experiments import beyond, capacity
from knnlm_paper.experiments.substitutes import STATES, both
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SCALES
from tests.paper.conftest import Smoke


def test_one_learning_rate_for_all_sizes_and_seeds_of_a_family(smoke: Smoke) -> None:
    rates: dict[Learned, set[float]] = {}
    for condition in smoke.results.of_kind(Learned):
        fit = smoke.results.measurement(condition).fit
        assert condition.fitted == (fit is not None)
        if fit is not None:
            rates.setdefault(condition.pilot(smoke.scale), set()).add(fit.rate)
            tried = {float(rate): loss for rate, loss in fit.rates.items() if np.isfinite(loss)}
            assert set(tried) >= set(smoke.scale.learning.rates)
            assert len(tried) > len(smoke.scale.learning.rates)  # the best of two is at an end
            assert fit.rate == min(tried, key=lambda rate: tried[rate])
    assert len(rates) > 5
    assert all(len(found) == 1 for found in rates.values())


def test_no_mixture_is_worse_on_validation_than_its_lm(smoke: Smoke) -> None:
    knn = KNN(exactly(paper_retrieval(smoke.scale)))
    for c in smoke.results.of_kind(Learned):
        r = smoke.results.measurement(c)
        assert r.own_tau.valid_ppl <= r.as_learned.valid_ppl + 1e-9, c.name
        assert r.as_learned.valid_ppl <= r.base.valid_ppl + 1e-9, c.name
        assert r.on_calibrated.valid_ppl <= r.base.calibrated_valid_ppl + 1e-9, c.name
        assert smoke.results.document_tokens(c) == smoke.results.document_tokens(knn)


def test_tuning_does_not_lose_to_the_fixed_temperature_where_it_tunes(smoke: Smoke) -> None:
    conditions = smoke.results.of_kind(KNN)
    assert len(conditions) > 50
    for condition in conditions:
        r = smoke.results.measurement(condition)
        assert r.own_tau.valid_ppl <= r.tau_1.valid_ppl, condition.name
        assert r.own_tau.valid_ppl <= r.base.valid_ppl * (1 + 1e-9)
        assert r.base.calibrated_valid_ppl <= r.base.valid_ppl * (1 + 1e-3)


def test_a_combination_is_no_worse_on_validation_than_its_parts(smoke: Smoke) -> None:
    combined = smoke.results.of_kind(Combined)
    assert any(c.neighbors for c in combined)
    for c in combined:
        r = smoke.results.measurement(c)
        learned = [smoke.results.measurement(part) for part in c.parts]
        near = [smoke.results.measurement(KNN(retrieval)) for retrieval in c.neighbors]
        best = [*(p.own_tau.valid_ppl for p in learned), *(p.own_tau.valid_ppl for p in near)]
        assert r.own_tau.valid_ppl <= min(best) + 1e-6
        assert sum(r.own_tau.shares) == pytest.approx(1)
        assert len(r.own_tau.shares) == 1 + len(best)
        assert r.added.parameters == sum(p.added.parameters for p in learned)


def test_added_numbers_are_those_of_the_formulas(smoke: Smoke) -> None:
    v, d = smoke.scale.shape("main").vocab_size, smoke.scale.shape("main").width

    def of(condition: Learned) -> int:
        return smoke.results.measurement(condition).added.parameters

    assert of(Learned()) == v * d
    assert of(Learned(size=2)) == 2 * v * d
    assert of(Learned(size=2, sizing="frequency")) <= 2 * v * d
    own = Learned(component="mixture-of-softmaxes", size=2)
    views = 2 * d * d + 2 * d + 2 * d + 2
    assert of(own) == v * d + views
    assert of(replace(own, own_embedding=False)) == views
    u = smoke.scale.learning.mlp_widths[0]
    assert (
        of(Learned(state="both", component="mlp", size=u))
        == v * d + 2 * d * d + u * 2 * d + u + d * u
    )


def test_seeds_differ_and_are_found(smoke: Smoke) -> None:
    first, second = (smoke.results.ppl(Learned(seed=s), "own_tau") for s in (0, 1))
    assert first != second
    assert smoke.results.learning_seeds(Learned()) == [Learned(), Learned(seed=1)]
    assert both().with_seed(1) == both(1)


def test_the_papers_scale_has_every_size_of_its_figure() -> None:
    conditions = capacity.experiment(SCALES["paper"]).conditions
    assert {c.size for c in conditions if isinstance(c, Learned)} == set(range(1, 10))
    assert len(beyond.combinations(SCALES["paper"])) >= 2


def test_all_entries_vote_and_cover_what_neighbors_cover(smoke: Smoke) -> None:
    for state in STATES:
        retrieval = replace(exactly(paper_retrieval(smoke.scale)), state=state)
        near = smoke.results.measurement(KNN(retrieval))
        whole = smoke.results.measurement(FullDatastore(state=state))
        assert whole.own_tau.coverage >= near.coverage
        assert whole.own_tau.valid_ppl < whole.base.valid_ppl
        assert whole.base == near.base
