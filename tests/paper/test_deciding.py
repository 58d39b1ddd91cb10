"""Claims become verdicts: effects from sums of log p, intervals over documents, seeds pooled; on
results whose truth is known."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from knnlm.errors import KnnlmError
from knnlm.evaluation.comparison import Sense
from knnlm_paper.claims.claim import (
    CALIBRATED,
    OWN_TAU,
    TAU_1,
    Claim,
    better,
    gain,
    less,
    times,
)
from knnlm_paper.claims.deciding import Finding, decide, verdict
from knnlm_paper.conditions import KNN, Learned, PaperCondition
from knnlm_paper.measurement import Documents
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, paper_retrieval
from knnlm_paper.scales import SMOKE_SCALE
from tests.paper.conftest import Smoke
from tests.paper.constructed import base_numbers, knn_measurement, results_of
from tests.paper.examples import EXAMPLES

A, B = Retrieval(state="att"), Retrieval(state="ffn")
SECOND_A, SECOND_B = replace(A, lm="seed-1"), replace(B, lm="seed-1")
HEAD, FFN_HEAD = Learned(), Learned(state="ffn")
SENSES: tuple[Sense, ...] = ("more", "same", "no more")
LEARNED = next(e.measurement for e in EXAMPLES if e.condition.kind == Learned.kind)
Compared = Retrieval | PaperCondition[Any]


def claim(sense: Sense = "more", **changes: Any) -> Claim:
    made = Claim(
        topic="a-beats-b",
        sentence="a beats b.",
        source="here",
        terms=better(A, B, OWN_TAU),
        sense=sense,
    )
    return replace(made, **changes)


def measurement(tokens: Sequence[int], words: int, /, kind: str = KNN.kind, **sums: Any) -> Any:
    """A measurement of a kind over documents of so many tokens, with these sums of log p."""
    points = {point: tuple(map(float, values)) for point, values in sums.items()}
    return replace(
        LEARNED if kind == Learned.kind else knn_measurement(),
        base=base_numbers(sum(tokens), words),
        documents=Documents(tokens=tuple(tokens), log_likelihood=points),
    )


def measured(*pairs: tuple[Compared, Sequence[float]]) -> Results:
    """Results whose documents have these sums of log p at their own τ, -500 without anything, and
    100 tokens and 50 words each."""
    made: dict[PaperCondition[Any], Any] = {}
    for compared, sums in pairs:
        condition = KNN(compared) if isinstance(compared, Retrieval) else compared
        made[condition] = measurement(
            [100] * len(sums),
            50 * len(sums),
            condition.kind,
            base=[-500.0] * len(sums),
            own_tau=sums,
        )
    return results_of(made)


def of_text(
    tokens: Sequence[int], words: int, ours: Sequence[float], theirs: Sequence[float]
) -> Results:
    """A and B on documents of different lengths."""
    sums = ((A, ours), (B, theirs))
    return results_of({KNN(r): measurement(tokens, words, own_tau=each) for r, each in sums})


def lead(nats: float, documents: int = 12) -> Results:
    """A is ahead of B by so much in every document."""
    return measured((A, [-410.0 + nats] * documents), (B, [-410.0] * documents))


def test_the_effect_is_the_ratio_of_perplexities_per_word() -> None:
    found = decide(claim(), lead(10.0))
    assert found.effect == pytest.approx(np.exp(0.2) - 1)  # 10 nats over 50 words
    assert found.low == pytest.approx(found.effect)
    assert found.verdict == "holds"


def test_a_difference_of_gains() -> None:
    terms = gain(A, OWN_TAU) + less(gain(B, OWN_TAU))
    found = decide(claim(terms=terms), lead(10.0))
    assert found.effect == pytest.approx(np.exp(0.2) - 1)  # both have the same base


@pytest.mark.parametrize(("share", "wanted"), [(0.5, "holds"), (0.9, "does not hold")])
def test_a_share_of_a_gain(share: float, wanted: str) -> None:
    results = measured((A, [-485.0] * 12), (B, [-480.0] * 12))  # 15 nats of 20
    terms = gain(A, OWN_TAU) + times(-share, gain(B, OWN_TAU))
    found = decide(claim(terms=terms, margin=0.0), results)
    assert found.effect == pytest.approx(np.expm1((15 - share * 20) / 50))
    assert found.verdict == wanted


def test_points_are_compared_as_the_claim_says() -> None:
    sums: dict[str, Any] = {"base": [-500], "calibrated": [-480], "on_calibrated": [-465]}
    results = results_of({KNN(A): measurement([100], 50, **sums, tau_1=[-490], own_tau=[-470])})
    wanted = {
        gain(A, OWN_TAU): 30,
        gain(A, CALIBRATED): 15,
        gain(A, OWN_TAU, "calibrated"): 10,
        better(A, A, OWN_TAU, TAU_1): 20,
        better(A, A, "calibrated", "base"): 20,
    }
    for terms, nats in wanted.items():
        assert decide(claim(terms=terms), results).effect == pytest.approx(np.expm1(nats / 50))


texts = st.lists(
    st.tuples(st.integers(20, 300), st.floats(-20, 20), st.floats(-20, 20)), min_size=1, max_size=8
)


@given(texts, st.floats(1, 3))
def test_an_effect_of_known_size_is_found(
    documents: list[tuple[int, float, float]], tokens_per_word: float
) -> None:
    tokens = [n for n, _, _ in documents]
    words = round(sum(tokens) / tokens_per_word)
    ours, theirs = [a for _, a, _ in documents], [b for _, _, b in documents]
    delta = sum(ours) - sum(theirs)
    found = decide(claim(), of_text(tokens, words, ours, theirs))
    assert found.effect == pytest.approx(math.expm1(delta / words), rel=1e-9, abs=1e-9)
    assert found.seeds == pytest.approx([found.effect])
    assert found.per_word.value == pytest.approx(math.expm1(-delta / words), rel=1e-9, abs=1e-9)
    by_token = math.expm1(-delta / sum(tokens))
    assert found.per_token.value == pytest.approx(by_token, rel=1e-6, abs=1e-9)
    check_changes(found)


def check_changes(found: Finding) -> None:
    """Changes are the effect turned round: minus is better, the ends change places."""
    word, token = found.per_word, found.per_token
    for by_word, end in zip(word, (found.effect, found.high, found.low), strict=True):
        assert (1 + by_word) * (1 + end) == pytest.approx(1)
    for by_word, by_token in zip(word, token, strict=True):
        assert 1 + by_word == pytest.approx((1 + by_token) ** found.tokens_per_word)
    for change in (word, token):
        assert change.low <= change.high
        if abs(found.effect) > 1e-12:
            assert (change.value < 0) == (found.effect > 0)


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=30), st.floats(-5, 5))
def test_an_interval_holds_its_value_and_moves_with_it(noise: list[float], shift: float) -> None:
    flat = [-400.0] * len(noise)
    found = decide(claim(), measured((A, np.add(flat, noise).tolist()), (B, flat)))
    moved = decide(claim(), measured((A, (np.add(flat, noise) + shift).tolist()), (B, flat)))
    for each in (found, moved):
        assert each.low <= each.effect + 1e-12
        assert each.effect <= each.high + 1e-12
        assert each.per_token.low <= each.per_token.value + 1e-12
        assert each.per_token.value <= each.per_token.high + 1e-12
    by = np.exp(shift / 50)
    for before, after in ((found.low, moved.low), (found.high, moved.high)):
        assert 1 + after == pytest.approx((1 + before) * by, rel=1e-6)


def test_words_are_divided_among_documents_by_their_tokens() -> None:
    """The same lead for each token everywhere: no draw of documents is unlike another."""
    tokens = [10, 300, 45]
    ours, theirs = [-4.0 * n for n in tokens], [-4.1 * n for n in tokens]
    found = decide(claim(), of_text(tokens, 142, ours, theirs))
    assert found.tokens_per_word == pytest.approx(2.5)
    assert found.per_token == pytest.approx([math.expm1(-0.1)] * 3)
    assert found.per_word == pytest.approx([math.expm1(-0.25)] * 3)


def test_the_interval_covers_what_documents_disagree_about() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 10, 60)
    found = decide(claim(), measured((A, list(-400 + noise)), (B, [-400.0] * 60)))
    assert found.low < 0 < found.high
    assert found.verdict == "undecided"
    spread = 1.96 * noise.std() / np.sqrt(60) / 50
    assert found.high - found.low == pytest.approx(2 * spread, rel=0.15)


def test_about_95_of_100_intervals_hold_the_truth() -> None:
    rng, truth, hits = np.random.default_rng(1), 2.0, 0  # nats in each document
    for _ in range(200):
        ahead = list(-400 + truth + rng.normal(0, 10, 40))
        found = decide(claim(), measured((A, ahead), (B, [-400.0] * 40)))
        hits += found.low <= math.expm1(truth / 50) <= found.high
    assert 180 <= hits <= 198


def test_seeds_are_pooled_and_shown() -> None:
    other = (SECOND_A, [-420.0] * 12), (SECOND_B, [-410.0] * 12)
    found = decide(claim(), measured((A, [-400.0] * 12), (B, [-410.0] * 12), *other))
    assert found.seeds == pytest.approx((np.exp(0.2) - 1, np.exp(-0.2) - 1))
    assert found.effect == pytest.approx(0.0)


def test_seeds_that_disagree_decide_nothing() -> None:
    other = (SECOND_A, [-411.0] * 12), (SECOND_B, [-410.0] * 12)
    found = decide(claim(), measured((A, [-390.0] * 12), (B, [-410.0] * 12), *other))
    assert found.low > 0
    assert found.verdict == "undecided"


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_two_seeds_hold_where_both_lead_and_their_mean_counts(first: float, second: float) -> None:
    mean = math.expm1((first + second) / 2 / 50)
    assume(abs(mean - 0.005) > 1e-9 and abs(first) > 1e-6 and abs(second) > 1e-6)
    for learned in (False, True):
        one: Compared = HEAD if learned else A
        two: Compared = Learned(seed=1) if learned else SECOND_A
        results = measured((one, [-500 + first] * 6), (two, [-500 + second] * 6))
        found = decide(claim(terms=gain(one, OWN_TAU)), results)
        assert found.effect == pytest.approx(mean, abs=1e-9)
        assert found.seeds == pytest.approx((math.expm1(first / 50), math.expm1(second / 50)))
        leads = min(first, second) > 0
        wanted = "does not hold" if mean < 0.005 else "holds" if leads else "undecided"
        assert found.verdict == wanted


def test_documents_are_averaged_over_seeds_before_they_are_drawn() -> None:
    noise = np.random.default_rng(2).normal(0, 20, 30)
    flat = [-410.0] * 30
    one, two = (A, list(-400 + noise)), (B, flat)
    alone = decide(claim(), measured(one, two))
    assert alone.high - alone.low > 0.1
    opposite = (SECOND_A, list(-400 - noise)), (SECOND_B, flat)
    found = decide(claim(), measured(one, two, *opposite))
    assert (found.low, found.high) == pytest.approx((np.expm1(0.2), np.expm1(0.2)))
    assert len(found.seeds) == 2


def test_only_seeds_of_which_everything_was_measured_count() -> None:
    main = (A, [-400.0] * 12), (B, [-410.0] * 12)
    assert len(decide(claim(), measured(*main, (SECOND_A, [-470.0] * 12))).seeds) == 1
    second = (SECOND_A, [-405.0] * 12), (SECOND_B, [-410.0] * 12)
    found = decide(claim(), measured(main[0], *second))
    assert found.seeds == pytest.approx([np.expm1(0.1)])
    assert found.verdict == "holds"


def test_an_lm_that_is_no_seed_stands_for_itself() -> None:
    wide = replace(A, lm="width-16")
    results = measured((wide, [-490.0] * 4), (SECOND_A, [-400.0] * 4), (A, [-400.0] * 4))
    found = decide(claim(terms=gain(wide, OWN_TAU)), results)
    assert found.seeds == pytest.approx([np.expm1(0.2)])
    both = gain(A, OWN_TAU) + less(gain(wide, OWN_TAU))
    found = decide(claim(terms=both), results)
    assert found.seeds == pytest.approx([np.expm1(1.8)])  # the main LM alone is beside it


def test_what_is_learned_is_averaged_over_its_own_seeds() -> None:
    heads = [(Learned(seed=seed), [nats - 500.0] * 4) for seed, nats in ((0, 10.0), (1, 20.0))]
    gap = (Learned(seed=3), [-300.0] * 4)
    near = (A, [-480.0] * 4), (SECOND_A, [-100.0] * 4)
    results = measured(*heads, gap, *near)
    found = decide(claim(terms=better(A, HEAD, OWN_TAU)), results)
    assert found.seeds == pytest.approx([np.expm1(0.2), 0.0], abs=1e-12)
    assert found.effect == pytest.approx(np.expm1(0.1))  # the LM's second seed has no part in it
    ffn = (FFN_HEAD, [-495.0] * 4)
    found = decide(claim(terms=better(HEAD, FFN_HEAD, OWN_TAU)), measured(*heads, ffn))
    assert found.seeds == pytest.approx([np.expm1(0.1)])  # as far as both were learned


@pytest.mark.parametrize(
    ("nats", "wanted"), [(10.0, "holds"), (0.0, "no question"), (-10.0, "no question")]
)
@pytest.mark.parametrize("sense", SENSES)
def test_a_question_arises_only_where_there_is_something_to_ask(
    sense: Sense, nats: float, wanted: str
) -> None:
    own = {"more": 10.0, "same": 0.0, "no more": -10.0}[sense]
    results = measured((A, [-400.0 + own] * 12), (B, [-400.0] * 12), (HEAD, [-500 + nats] * 12))
    asked = claim(sense, given=gain(HEAD, OWN_TAU))
    assert decide(asked, results).verdict == wanted
    assert decide(replace(asked, given=()), results).verdict == "holds"


def test_a_question_that_does_not_arise_is_not_answered() -> None:
    assert decide(claim(given=better(B, A, OWN_TAU)), lead(10.0)).verdict == "no question"
    assert decide(claim(given=better(A, B, OWN_TAU)), lead(10.0)).verdict == "holds"
    assert decide(claim(given=gain(HEAD, OWN_TAU)), lead(10.0)).verdict == "no question"
    noise = np.random.default_rng(0).normal(0, 10, 12)
    unsure = measured((A, [-400.0] * 12), (B, [-410.0] * 12), (HEAD, list(noise - 500)))
    assert decide(claim(given=gain(HEAD, OWN_TAU)), unsure).verdict == "no question"


def test_a_question_about_what_is_missing_is_not_measured() -> None:
    assert decide(claim(given=gain(A, OWN_TAU)), measured()).verdict == "not measured"


def test_the_margin_is_at_most_half_of_what_the_paper_found() -> None:
    assert claim(paper=0.004).margin == 0.002
    assert claim(paper=0.08).margin == 0.005
    assert claim("no more", paper=0.004).margin == 0.005
    assert claim("same", paper=0.004, margin=0.01).margin == 0.01


def test_conditions_of_different_texts_are_not_compared() -> None:
    with pytest.raises(KnnlmError, match="different test tokens"):
        decide(claim(), measured((A, [-400.0] * 12), (B, [-410.0] * 13)))
    as_many, unlike = (measurement(n, 100, own_tau=[-1, -1]) for n in ((100, 100), (150, 50)))
    with pytest.raises(KnnlmError, match="different test tokens"):
        decide(claim(), results_of({KNN(A): as_many, KNN(B): unlike}))


def test_a_missing_condition_is_not_measured() -> None:
    nothing = decide(claim(), measured((A, [-400.0] * 12)))
    assert nothing.verdict == "not measured"
    assert nothing.seeds == ()
    assert all(map(math.isnan, (nothing.effect, nothing.low, nothing.high)))
    assert all(map(math.isnan, (*nothing.per_word, *nothing.per_token)))
    impossible = results_of({KNN(A): measurement([9], 5, own_tau=[-1.0], base=[-2.0])})
    assert decide(claim(terms=gain(A, OWN_TAU)), impossible).verdict != "not measured"
    assert decide(claim(terms=gain(A, TAU_1)), impossible).verdict == "not measured"


@pytest.mark.parametrize("sense", SENSES)
def test_a_verdict_is_by_the_sense_and_margin_of_the_claim(sense: Sense) -> None:
    """All verdicts of intervals are tested in tests/evaluation/test_comparison.py."""
    wanted = {"more": "does not hold", "same": "holds", "no more": "holds"}[sense]
    assert verdict(claim(sense, margin=0.05), 0.01, 0.02) == wanted
    wanted = {"more": "holds", "same": "does not hold", "no more": "does not hold"}[sense]
    assert verdict(claim(sense, margin=0.001), 0.01, 0.02) == wanted


def test_an_effect_agrees_with_the_perplexities_of_its_rows(smoke: Smoke) -> None:
    retrieval = paper_retrieval(SMOKE_SCALE)
    main = smoke.results.only([KNN(retrieval)])
    found = decide(claim(terms=gain(retrieval, OWN_TAU)), main)
    r = smoke.results.measurement(KNN(retrieval))
    assert found.effect == pytest.approx(r.base.word_ppl / r.own_tau.word_ppl - 1, rel=1e-5)
    assert found.per_token.value == pytest.approx(r.own_tau.ppl / r.base.ppl - 1, rel=1e-5)
