"""Substitutes as rows: one recipe for all sizes, never worse on validation than their parts, shares
that add up."""

from dataclasses import replace

import numpy as np
import pytest

from knnlm_paper.apprentice import first_of_family
from knnlm_paper.beyond_claims import beyond_claims
from knnlm_paper.experiments import beyond, capacity, recipes
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.experiments.substitutes import STATES, both
from knnlm_paper.findings import check, gain, with_seed
from knnlm_paper.learned_claims import HALF, learned_claims, recovers
from knnlm_paper.report.shares import points
from knnlm_paper.report.substitutes import beyond_table, heads_table, rates_table, words
from knnlm_paper.rows import Combined, Learned, Unmasked
from knnlm_paper.scales import SCALES
from knnlm_paper.shares import share_of_gain
from tests.paper.conftest import Smoke


def learned_rows(smoke: Smoke) -> list[Learned]:
    return [
        row for recipe in recipes(smoke.scale) for row in recipe.rows if isinstance(row, Learned)
    ]


def test_one_learning_rate_for_all_sizes_and_seeds_of_a_family(smoke: Smoke) -> None:
    rates: dict[Learned, set[float]] = {}
    for row in learned_rows(smoke):
        learned = smoke.records[row.name]["results"]["learned"]
        if row.fitted:
            rates.setdefault(first_of_family(row, smoke.scale), set()).add(learned["rate"])
            tried = {
                float(rate): loss for rate, loss in learned["rates"].items() if loss is not None
            }
            assert set(tried) >= set(smoke.scale.learning.rates)
            assert len(tried) > len(smoke.scale.learning.rates)  # the best of two is at an end
            assert learned["rate"] == min(tried, key=lambda rate: tried[rate])
        else:
            assert "rate" not in learned
    assert all(len(found) == 1 for found in rates.values())


def test_no_mixture_is_worse_on_validation_than_its_lm(smoke: Smoke) -> None:
    for row in learned_rows(smoke):
        r = smoke.records[row.name]["results"]
        assert r["tuned"]["valid_ppl"] <= r["as_learned"]["valid_ppl"] + 1e-9, row.name
        assert r["as_learned"]["valid_ppl"] <= r["base"]["valid_ppl"] + 1e-9, row.name
        assert r["on_calibrated"]["valid_ppl"] <= r["base"]["calibrated_valid_ppl"] + 1e-9, row.name
        assert (
            r["documents"]["tokens"]
            == smoke.records[exactly(paper_arm(smoke.scale)).name]["results"]["documents"]["tokens"]
        )


def test_a_combination_is_no_worse_on_validation_than_its_parts(smoke: Smoke) -> None:
    rows = [
        row for recipe in recipes(smoke.scale) for row in recipe.rows if isinstance(row, Combined)
    ]
    assert any(row.neighbours for row in rows)
    for row in rows:
        r = smoke.records[row.name]["results"]
        names = [*(part.name for part in row.parts), *(arm.name for arm in row.neighbours)]
        parts = [smoke.records[name]["results"] for name in names]
        assert r["tuned"]["valid_ppl"] <= min(p["tuned"]["valid_ppl"] for p in parts) + 1e-6
        assert sum(r["tuned"]["shares"]) == pytest.approx(1)
        assert len(r["tuned"]["shares"]) == 1 + len(parts)
        assert r["learned"]["parameters"] == sum(
            smoke.records[p.name]["results"]["learned"]["parameters"] for p in row.parts
        )


def test_added_numbers_are_those_of_the_formulas(smoke: Smoke) -> None:
    v, d = smoke.scale.shape("main").vocab_size, smoke.scale.shape("main").width

    def of(row: Learned) -> int:
        return int(smoke.records[row.name]["results"]["learned"]["parameters"])

    assert of(Learned()) == v * d
    assert of(Learned(size=2)) == 2 * v * d
    assert of(Learned(size=2, sizing="frequency")) <= 2 * v * d
    own = Learned(kind="softmaxes", size=2)
    views = 2 * d * d + 2 * d + 2 * d + 2
    assert of(own) == v * d + views
    assert of(replace(own, own_embedding=False)) == views
    u = smoke.scale.learning.networks[0]
    assert (
        of(Learned(state="both", kind="network", size=u))
        == v * d + 2 * d * d + u * 2 * d + u + d * u
    )


def test_a_share_is_the_ratio_of_the_gains(smoke: Smoke) -> None:
    knn, head = exactly(paper_arm(smoke.scale)).name, Learned().name
    found = share_of_gain(smoke.records, [head], knn)
    r = {name: smoke.records[name]["results"] for name in (knn, head)}
    gains = {name: np.log(x["base"]["ppl"] / x["tuned"]["ppl"]) for name, x in r.items()}
    assert found.value == pytest.approx(gains[head] / gains[knn], rel=1e-4)
    assert found.low < found.value < found.high
    assert share_of_gain(smoke.records, [knn], knn).value == 1
    assert np.isnan(share_of_gain(smoke.records, ["nothing"], knn).value)


def test_half_of_the_gain_is_what_the_claim_measures(smoke: Smoke) -> None:
    claim = recovers(smoke.scale, "a head", Learned(), HALF, "tuned", "base")
    found = check(claim, smoke.records, smoke.scale.seeds)
    knn = exactly(paper_arm(smoke.scale))
    gains = [
        np.log1p(check(replace(claim, terms=gain(row, "tuned")), smoke.records, ["main"]).effect)
        for row in (Learned(), knn)
    ]
    assert np.log1p(found.effect) == pytest.approx(gains[0] - HALF * gains[1], rel=1e-6)
    assert len(found.seeds) == smoke.scale.learning.seeds


def test_seeds_differ_and_are_found(smoke: Smoke) -> None:
    first, second = (
        smoke.records[with_seed(Learned(), s).name]["results"]["tuned"]["ppl"] for s in (0, 1)
    )
    assert first != second
    assert with_seed(both(), 1) == both(1)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda s: s.name)
def test_every_claim_about_substitutes_is_of_rows_that_a_recipe_has(scale: object) -> None:
    assert hasattr(scale, "learning")
    known = {row.name for recipe in recipes(scale) for row in recipe.rows}  # type: ignore[arg-type]
    for claim in (*learned_claims(scale), *beyond_claims(scale)):  # type: ignore[arg-type]
        for term in claim.terms:
            assert term.arm.name in known, (claim.name, term.arm.name)


def test_the_report_shows_them(smoke: Smoke) -> None:
    table = heads_table(smoke.records, smoke.scale)
    assert [row[0].text for row in table.rows[1:4]] == [
        words(Learned()),
        words(Learned(metric="l2")),
        words(Learned(state="ffn")),
    ]
    assert table.rows[0][0].text == "the calibrated LM"
    assert any(row[0].text.startswith("paper") for row in table.rows)
    shown = points(smoke.records, smoke.scale)
    assert {p.family for p in shown} >= {
        "embeddings on att",
        "clusters",
        "taught by neighbours",
        "combinations",
    }
    assert all(p.parameters > 0 for p in shown)
    assert len(rates_table(smoke.records).rows) >= 6


def test_the_papers_scale_has_every_size_of_its_figure() -> None:
    rows = capacity.recipe(SCALES["paper"]).rows
    assert {row.size for row in rows if isinstance(row, Learned)} == set(range(1, 10))
    assert len(beyond.combinations(SCALES["paper"])) >= 2


def test_all_rows_vote_and_cover_what_neighbours_cover(smoke: Smoke) -> None:
    for state in STATES:
        near = smoke.records[replace(exactly(paper_arm(smoke.scale)), state=state).name]["results"]
        whole = smoke.records[Unmasked(state=state).name]["results"]
        assert whole["tuned"]["coverage"] >= near["coverage"]
        assert whole["tuned"]["valid_ppl"] < whole["base"]["valid_ppl"]
        assert whole["base"] == near["base"]


def test_all_seeds_of_a_substitute_are_one_line(smoke: Smoke) -> None:
    names = [line[0].text for line in beyond_table(smoke.records, smoke.scale).rows]
    assert len(names) == len(set(names)) > 1
