"""Substitutes: one recipe for all sizes, never worse on validation than their parts, shares
that add up."""

from dataclasses import replace

import numpy as np
import pytest

from knnlm_paper.beyond_claims import beyond_claims
from knnlm_paper.conditions import KNN, Combined, FullDatastore, Learned
from knnlm_paper.experiments import all_experiments, beyond, capacity
from knnlm_paper.experiments.substitutes import STATES, both
from knnlm_paper.findings import check, gain
from knnlm_paper.learned_claims import HALF, learned_claims, recovers
from knnlm_paper.report.shares import points
from knnlm_paper.report.substitutes import beyond_table, heads_table, rates_table
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SCALES, Scale
from knnlm_paper.shares import share_of_gain
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
    u = smoke.scale.learning.networks[0]
    assert (
        of(Learned(state="both", component="mlp", size=u))
        == v * d + 2 * d * d + u * 2 * d + u + d * u
    )


def test_a_share_is_the_ratio_of_the_gains(smoke: Smoke) -> None:
    knn, head, results = KNN(exactly(paper_retrieval(smoke.scale))), Learned(), smoke.results
    found = share_of_gain(results, [head], knn)
    gains = [np.log(results.ppl(c, "base") / results.ppl(c, "own_tau")) for c in (head, knn)]
    assert found.value == pytest.approx(gains[0] / gains[1], rel=1e-4)
    assert found.low < found.value < found.high
    assert share_of_gain(results, [knn], knn).value == 1
    assert np.isnan(share_of_gain(results, [Learned(seed=99)], knn).value)


def test_half_of_the_gain_is_what_the_claim_measures(smoke: Smoke) -> None:
    claim = recovers(smoke.scale, "a head", Learned(), HALF, "own_tau", "base")
    found = check(claim, smoke.results, smoke.scale.seeds)
    knn = KNN(exactly(paper_retrieval(smoke.scale)))
    gains = [
        np.log1p(check(replace(claim, terms=gain(c, "own_tau")), smoke.results, ["main"]).effect)
        for c in (Learned(), knn)
    ]
    assert np.log1p(found.effect) == pytest.approx(gains[0] - HALF * gains[1], rel=1e-6)
    assert len(found.seeds) == smoke.scale.learning.seeds


def test_seeds_differ_and_are_found(smoke: Smoke) -> None:
    first, second = (smoke.results.ppl(Learned(seed=s), "own_tau") for s in (0, 1))
    assert first != second
    assert smoke.results.learning_seeds(Learned()) == [Learned(), Learned(seed=1)]
    assert both().with_seed(1) == both(1)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda s: s.name)
def test_every_claim_about_substitutes_is_of_conditions_that_an_experiment_has(
    scale: Scale,
) -> None:
    known = {c for experiment in all_experiments(scale) for c in experiment.conditions}
    for claim in (*learned_claims(scale), *beyond_claims(scale)):
        for term in claim.terms:
            assert term.condition in known, (claim.name, term.condition.name)


def test_the_report_shows_them(smoke: Smoke) -> None:
    table = heads_table(smoke.results)
    assert [row[0].text for row in table.rows[1:4]] == [
        Learned().label,
        Learned(metric="l2").label,
        Learned(state="ffn").label,
    ]
    assert table.rows[0][0].text == "the calibrated LM"
    assert any(row[0].text.startswith("paper") for row in table.rows)
    shown = points(smoke.results)
    assert {p.family for p in shown} >= {
        "embeddings on att",
        "clusters",
        "taught by neighbours",
        "combinations",
    }
    assert all(p.parameters > 0 for p in shown)
    assert len(rates_table(smoke.results).rows) >= 6


def test_the_papers_scale_has_every_size_of_its_figure() -> None:
    conditions = capacity.experiment(SCALES["paper"]).conditions
    assert {c.size for c in conditions if isinstance(c, Learned)} == set(range(1, 10))
    assert len(beyond.combinations(SCALES["paper"])) >= 2


def test_all_entries_vote_and_cover_what_neighbours_cover(smoke: Smoke) -> None:
    for state in STATES:
        retrieval = replace(exactly(paper_retrieval(smoke.scale)), state=state)
        near = smoke.results.measurement(KNN(retrieval))
        whole = smoke.results.measurement(FullDatastore(state=state))
        assert whole.own_tau.coverage >= near.coverage
        assert whole.own_tau.valid_ppl < whole.base.valid_ppl
        assert whole.base == near.base


def test_all_seeds_of_a_substitute_are_one_line(smoke: Smoke) -> None:
    names = [line[0].text for line in beyond_table(smoke.results).rows]
    assert len(names) == len(set(names)) > 1
