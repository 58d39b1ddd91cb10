"""Claims become verdicts: effects from sums of log p, intervals over documents, seeds pooled."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from knnlm.errors import KnnlmError
from knnlm_paper.claims import claims
from knnlm_paper.conditions import KNN
from knnlm_paper.conditions.word_types.types import entropies
from knnlm_paper.doubts import audit, doubts
from knnlm_paper.expected import printed, published
from knnlm_paper.findings import Claim, better, check, gain, less, verdict
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, paper_retrieval
from knnlm_paper.scales import SCALES, SMOKE_SCALE, Scale
from knnlm_paper.trends import trend
from knnlm_paper.word_findings import word_findings
from tests.paper.conftest import Smoke
from tests.paper.constructed import knn_measurement, results_of

A, B = Retrieval(state="att"), Retrieval(state="ffn")


def claim(sense: str = "more", **changes: Any) -> Claim:
    return replace(
        Claim(name="a beats b", says="", where="", terms=better(A, B, "own_tau"), sense=sense),  # type: ignore[arg-type]
        **changes,
    )


def measured(*pairs: tuple[Retrieval, list[float]]) -> Results:
    """Results of retrievals whose documents have these sums of log p at their own τ, and 100 tokens
    and 50 words each."""
    return results_of(
        {
            KNN(retrieval): knn_measurement(
                base=[-500.0] * len(sums), own_tau=sums, tokens=100, words=50
            )
            for retrieval, sums in pairs
        }
    )


def test_the_effect_is_the_ratio_of_perplexities_per_word() -> None:
    found = check(claim(), measured((A, [-400.0] * 12), (B, [-410.0] * 12)), ["main"])
    assert found.effect == pytest.approx(np.exp(0.2) - 1)  # 10 nats over 50 words
    assert found.low == pytest.approx(found.effect)
    assert found.verdict == "holds"


def test_a_difference_of_gains() -> None:
    terms = gain(A, "own_tau") + less(gain(B, "own_tau"))
    found = check(claim(terms=terms), measured((A, [-400.0] * 12), (B, [-410.0] * 12)), ["main"])
    assert found.effect == pytest.approx(np.exp(0.2) - 1)  # both have the same base


def test_the_interval_covers_what_documents_disagree_about() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 10, 60)
    found = check(claim(), measured((A, list(-400 + noise)), (B, [-400.0] * 60)), ["main"])
    assert found.low < 0 < found.high
    assert found.verdict == "undecided"
    spread = 1.96 * noise.std() / np.sqrt(60) / 50
    assert found.high - found.low == pytest.approx(2 * spread, rel=0.15)


def test_seeds_are_pooled_and_shown() -> None:
    other = (replace(A, lm="seed-1"), [-420.0] * 12), (replace(B, lm="seed-1"), [-410.0] * 12)
    found = check(
        claim(), measured((A, [-400.0] * 12), (B, [-410.0] * 12), *other), ["main", "seed-1"]
    )
    assert found.seeds == pytest.approx((np.exp(0.2) - 1, np.exp(-0.2) - 1))
    assert found.effect == pytest.approx(0.0)


def test_seeds_that_disagree_decide_nothing() -> None:
    other = (replace(A, lm="seed-1"), [-411.0] * 12), (replace(B, lm="seed-1"), [-410.0] * 12)
    found = check(
        claim(), measured((A, [-390.0] * 12), (B, [-410.0] * 12), *other), ["main", "seed-1"]
    )
    assert found.low > 0
    assert found.verdict == "undecided"


def test_a_question_that_does_not_arise_is_not_answered() -> None:
    found = check(
        claim(given=better(B, A, "own_tau")),
        measured((A, [-400.0] * 12), (B, [-410.0] * 12)),
        ["main"],
    )
    assert found.verdict == "no question"
    asked = check(
        claim(given=better(A, B, "own_tau")),
        measured((A, [-400.0] * 12), (B, [-410.0] * 12)),
        ["main"],
    )
    assert asked.verdict == "holds"


def test_the_margin_is_at_most_half_of_what_the_paper_found() -> None:
    assert claim(paper=0.004).margin == 0.002
    assert claim(paper=0.08).margin == 0.005


def test_conditions_of_different_texts_are_not_compared() -> None:
    with pytest.raises(KnnlmError, match="different test tokens"):
        check(claim(), measured((A, [-400.0] * 12), (B, [-410.0] * 13)), ["main"])


def test_a_missing_condition_is_not_measured() -> None:
    assert check(claim(), measured((A, [-400.0] * 12)), ["main"]).verdict == "not measured"


@pytest.mark.parametrize(
    ("sense", "low", "high", "wanted"),
    [
        ("more", 0.001, 0.02, "holds"),
        ("more", 0.001, 0.002, "does not hold"),
        ("more", -0.01, 0.004, "does not hold"),
        ("more", -0.01, 0.006, "undecided"),
        ("more", -0.2, -0.1, "does not hold"),
        ("same", -0.004, 0.004, "holds"),
        ("same", -0.004, 0.006, "undecided"),
        ("same", 0.006, 0.02, "does not hold"),
        ("same", -0.02, -0.006, "does not hold"),
        ("no more", -0.02, 0.004, "holds"),
        ("no more", 0.001, 0.004, "holds"),
        ("no more", 0.001, 0.02, "does not hold"),
        ("no more", -0.001, 0.02, "undecided"),
    ],
)
def test_verdicts(sense: str, low: float, high: float, wanted: str) -> None:
    assert verdict(claim(sense), low, high) == wanted


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda s: s.name)
def test_every_claim_has_a_name_of_its_own(scale: Scale) -> None:
    names = [c.name for c in (*claims(scale), *doubts(scale), *audit(scale))]
    assert len(set(names)) == len(names)


def test_every_claim_is_measured_by_some_experiment(smoke: Smoke) -> None:
    for c in (*claims(SMOKE_SCALE), *doubts(SMOKE_SCALE), *audit(SMOKE_SCALE)):
        assert check(c, smoke.results, smoke.scale.seeds).verdict != "not measured", c.name


def test_an_effect_agrees_with_the_perplexities_of_its_rows(smoke: Smoke) -> None:
    retrieval = paper_retrieval(smoke.scale)
    found = check(claim(terms=gain(retrieval, "own_tau")), smoke.results, ["main"])
    r = smoke.results.measurement(KNN(retrieval))
    assert found.effect == pytest.approx(r.base.word_ppl / r.own_tau.word_ppl - 1, rel=1e-5)


def test_tuning_does_not_lose_to_the_fixed_temperature_where_it_tunes(smoke: Smoke) -> None:
    conditions = smoke.results.of_kind(KNN)
    assert len(conditions) > 50
    for condition in conditions:
        r = smoke.results.measurement(condition)
        assert r.own_tau.valid_ppl <= r.tau_1.valid_ppl, condition.name
        assert r.own_tau.valid_ppl <= r.base.valid_ppl * (1 + 1e-9)
        assert r.base.calibrated_valid_ppl <= r.base.valid_ppl * (1 + 1e-3)


def test_what_the_paper_printed_is_what_it_says_of_itself() -> None:
    table = printed("tab:knn_recompute", state="att", metric="l2", search="exact", score="exact")
    assert table is not None
    assert table.change == pytest.approx(19.735 / 21.750 - 1)
    for row in published()["tab:knn_other_models"]:
        assert row.base is not None
        assert row.base - row.cells["interp"] == pytest.approx(row.cells["gain"], abs=1e-9)
    base = 21.750
    att, knn = (
        r.cells["interp"] for r in (published()["tab:input_representation"][i] for i in (1, 0))
    )
    assert (base - att) / (base - knn) == pytest.approx(0.53, abs=0.03)  # "about 55%"


def test_entropies_are_those_of_the_bigrams() -> None:
    given, other = np.array([0, 0, 0, 0, 1, 1]), np.array([5, 5, 6, 7, 2, 2])
    found = entropies(given, other, 8)
    assert found[0] == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(4))
    assert found[1] == 0
    assert found[3] == 0


def test_a_trend_is_found_with_its_interval() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, 200)
    found = trend(list(x), list(2 - 0.5 * x + rng.normal(0, 1, 200)))
    assert found.low < -0.5 < found.high
    assert found.high < 0
    assert found.intercept == pytest.approx(2, abs=0.5)


def test_appendix_d_becomes_findings(smoke: Smoke) -> None:
    found = word_findings(smoke.results)
    assert [f.claim.where for f in found] == ["appendix D"] * 3
    assert all(f.low <= f.effect <= f.high for f in found)
