"""Whole questions on constructed results whose truth is known: every claim that depends on it gets
its verdict."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from knnlm_paper.claims import Findings, all_findings
from knnlm_paper.conditions import (
    KNN,
    FullDatastore,
    Learned,
    PaperCondition,
    TokenList,
)
from knnlm_paper.experiments.audit import paper_share
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.experiments.ensembling import (
    memory_and_neighbors,
    two_stores,
    with_head,
    with_lms,
    with_one,
)
from knnlm_paper.experiments.ruled_out import by_choice
from knnlm_paper.measurement import Documents
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import SMOKE_SCALE
from tests.paper.constructed import base_numbers, results_of
from tests.paper.examples import EXAMPLES

DOCUMENTS, TOKENS, WORDS = 12, 100, 50
ATT = paper_retrieval(SMOKE_SCALE)
FFN = replace(ATT, state="ffn")
EXACT, RESCORED = exactly(ATT), replace(ATT, score="exact")
MEASUREMENTS = {example.condition.kind: example.measurement for example in EXAMPLES}
Gains = Mapping[str, float]
"""Nats that each document gains over the LM, by point; `calibrated` is the calibrated LM."""
Gained = dict[PaperCondition[Any] | Retrieval, Gains]


def gained(**points: float) -> Gains:
    """The LM itself is where gains are counted from."""
    return {"base": 0.0, **points}


def findings_of(gains: Gained) -> Findings:
    """All findings on results with these gains."""
    made: dict[PaperCondition[Any], Any] = {}
    for compared, points in gains.items():
        condition = KNN(compared) if isinstance(compared, Retrieval) else compared
        sums = {point: (nats - 500.0,) * DOCUMENTS for point, nats in points.items()}
        made[condition] = replace(
            MEASUREMENTS[condition.kind],
            base=base_numbers(TOKENS * DOCUMENTS, WORDS * DOCUMENTS),
            documents=Documents(tokens=(TOKENS,) * DOCUMENTS, log_likelihood=sums),
        )
    return all_findings(results_of(made))


def check(findings: Findings, wanted: Mapping[str, str]) -> None:
    assert {claim_id: findings[claim_id].verdict for claim_id in wanted} == wanted


def test_a_lead_that_is_temperature() -> None:
    """att is ahead at one τ for all, and level where ffn has its own."""
    findings = findings_of(
        {ATT: gained(one_tau=20, own_tau=20), FFN: gained(one_tau=10, own_tau=20)}
    )
    check(
        findings,
        {
            "att-beats-ffn@one-tau": "holds",
            "att-beats-ffn@own-tau": "does not hold",
            "att-lead-is-temperature": "holds",
            "att-beats-ffn@tau-1": "not measured",
            "knn-helps@own-tau": "holds",
        },
    )


def test_a_lead_that_stays() -> None:
    findings = findings_of(
        {ATT: gained(one_tau=20, own_tau=24), FFN: gained(one_tau=10, own_tau=15)}
    )
    check(
        findings,
        {
            "att-beats-ffn@own-tau": "holds",
            "att-lead-is-temperature": "does not hold",
        },
    )


def test_where_there_is_no_lead_it_is_no_question_of_temperature() -> None:
    findings = findings_of(
        {ATT: gained(one_tau=10, own_tau=10), FFN: gained(one_tau=20, own_tau=10)}
    )
    check(
        findings,
        {"att-lead-is-temperature": "no question", "att-beats-ffn@one-tau": "does not hold"},
    )


@pytest.mark.parametrize(
    ("index", "rescored", "exact", "wanted"),
    [
        (  # its scores are what is good about the index
            30,
            20,
            20,
            {
                "index-beats-exact": "holds",
                "index-neighbors-beat-exact-ones": "does not hold",
                "index-scores-beat-exact-ones": "holds",
                "scores-matter-more-than-neighbors": "holds",
            },
        ),
        (  # its neighbors are
            30,
            30,
            20,
            {
                "index-beats-exact": "holds",
                "index-neighbors-beat-exact-ones": "holds",
                "index-scores-beat-exact-ones": "does not hold",
                "scores-matter-more-than-neighbors": "does not hold",
            },
        ),
        (  # nothing is
            10,
            15,
            20,
            {
                "index-beats-exact": "does not hold",
                "index-neighbors-beat-exact-ones": "does not hold",
                "index-scores-beat-exact-ones": "does not hold",
                "scores-matter-more-than-neighbors": "does not hold",
            },
        ),
    ],
)
def test_what_is_good_about_an_index(
    index: float, rescored: float, exact: float, wanted: dict[str, str]
) -> None:
    gains = {ATT: index, RESCORED: rescored, EXACT: exact}
    findings = findings_of({setting: gained(one_tau=nats) for setting, nats in gains.items()})
    check(findings, {f"{topic}@one-tau": verdict for topic, verdict in wanted.items()})


@pytest.mark.parametrize(
    ("calibration", "wanted"),
    [
        (20, {"knn-beats-calibration": "does not hold", "calibration-has-90-percent": "holds"}),
        (10, {"knn-beats-calibration": "holds", "calibration-has-90-percent": "does not hold"}),
        (40, {"knn-beats-calibration": "does not hold", "calibration-has-90-percent": "holds"}),
    ],
)
def test_neighbors_or_calibration(calibration: float, wanted: dict[str, str]) -> None:
    points = gained(own_tau=20, calibrated=calibration, on_calibrated=calibration + 10)
    findings = findings_of({EXACT: points})
    check(findings, {**wanted, "knn-helps-exact@calibrated": "holds"})


def test_neighbors_that_only_calibrate_gain_nothing_over_the_calibrated_lm() -> None:
    findings = findings_of({EXACT: gained(own_tau=20, calibrated=20, on_calibrated=20)})
    check(
        findings,
        {"knn-helps-exact@own-tau": "holds", "knn-helps-exact@calibrated": "does not hold"},
    )


@pytest.mark.parametrize(
    ("share", "half", "most"),
    [
        (0.4, "does not hold", "does not hold"),
        (0.6, "holds", "does not hold"),
        (0.95, "holds", "holds"),
    ],
)
def test_the_share_that_a_head_has_of_the_neighbors_gain(
    share: float, half: str, most: str
) -> None:
    findings = findings_of({EXACT: gained(own_tau=20), Learned(): gained(own_tau=20 * share)})
    check(
        findings,
        {
            "head-on-att-has-50-percent@own-tau": half,
            "head-on-att-has-90-percent@own-tau": most,
            "neighbors-beat-a-head@own-tau": "holds",
        },
    )


def test_a_share_of_no_gain_is_no_question() -> None:
    findings = findings_of({EXACT: gained(own_tau=0), Learned(): gained(own_tau=10)})
    check(
        findings,
        {
            "head-on-att-has-50-percent@own-tau": "no question",
            "head-on-att-helps@own-tau": "holds",
            "neighbors-beat-a-head@own-tau": "does not hold",
        },
    )


@pytest.mark.parametrize(("nats", "less"), [(8, "holds"), (12, "does not hold")])
def test_clusters_have_less_than_half_or_not(nats: float, less: str) -> None:
    clusters = clusters_of("ffn", SMOKE_SCALE.learning.clusters[0])
    findings = findings_of(
        {
            EXACT: gained(calibrated=5, on_calibrated=25),
            clusters: gained(calibrated=5, on_calibrated=5 + nats),
        }
    )
    check(findings, {"clusters-of-ffn-have-less-than-half@calibrated": less})


def test_zero_entries_that_hurt_exact_search_by_l2_alone() -> None:
    share = paper_share(SMOKE_SCALE)
    clean = {ATT: 20.0, EXACT: 20.0, replace(EXACT, metric="ip"): 20.0}
    gains: Gained = {setting: gained(own_tau=nats) for setting, nats in clean.items()}
    gains |= {replace(setting, zeros=share): gained(own_tau=20) for setting in clean}
    gains[replace(EXACT, zeros=share)] = gained(own_tau=10)
    check(
        findings_of(gains),
        {
            "zeros-hurt-exact-search@own-tau": "holds",
            "zeros-hurt-the-index@own-tau": "does not hold",
            "zeros-hurt-exact-search-more@own-tau": "holds",
            "zeros-hurt-l2-more@own-tau": "holds",
        },
    )


def test_scores_in_fp16_that_are_as_good_are_the_same() -> None:
    half = replace(RESCORED, score="half")
    level = findings_of({RESCORED: gained(own_tau=20), half: gained(own_tau=20.1)})
    check(level, {"fp16-scores-change-little@own-tau": "holds"})
    for nats in (19, 21):
        apart = findings_of({RESCORED: gained(own_tau=20), half: gained(own_tau=nats)})
        check(apart, {"fp16-scores-change-little@own-tau": "does not hold"})


def over(nats: float) -> Gains:
    """The same gain over the LM and over the calibrated LM."""
    return gained(own_tau=nats, calibrated=0.0, on_calibrated=nats)


def test_neighbors_that_know_what_other_lms_do_not() -> None:
    steps = SMOKE_SCALE.lm("memorised").preset.keep
    memory = with_one("memorised", steps[-1])
    gains: Gained = {
        with_lms(SMOKE_SCALE, count, knn): over(10 * count + 5 * knn)
        for count in range(4)
        for knn in (False, True)
        if count or knn
    }
    gains |= {memory: over(0), memory_and_neighbors(SMOKE_SCALE): over(5)}
    wanted = {
        "neighbors-help-1-lm": "holds",
        "neighbors-help-4-lms": "holds",
        "second-lm-beats-neighbors": "holds",  # ten nats against five
        "neighbors-beat-lm-3": "does not hold",
        f"memorizing-lm-does-not-help-{steps[-1]}": "holds",
        "neighbors-help-beside-memory": "holds",
        "neighbors-beat-memory": "holds",
    }
    for at in ("own-tau", "calibrated"):
        check(findings_of(gains), {f"{topic}@{at}": v for topic, v in wanted.items()})


def test_what_helps_beside_neighbors() -> None:
    gains: Gained = {
        EXACT: over(20),
        two_stores(SMOKE_SCALE): over(20),
        with_head(SMOKE_SCALE): over(30),
    }
    check(
        findings_of(gains),
        {
            "ffn-neighbors-help-beside-att@calibrated": "does not hold",
            "head-helps-beside-neighbors@calibrated": "holds",
        },
    )


def test_all_entries_a_list_of_tokens_and_the_nearest() -> None:
    findings = findings_of(
        {
            EXACT: over(20),
            FullDatastore(): over(25),
            TokenList(k=8): over(0),
            by_choice(SMOKE_SCALE, True): over(20),
            by_choice(SMOKE_SCALE, False): over(12),
        }
    )
    check(
        findings,
        {
            "all-entries-beat-the-nearest-att@calibrated": "holds",
            "all-entries-beat-the-nearest-ffn@calibrated": "not measured",
            "likeliest-8-tokens-do-not-help@own-tau": "holds",
            "neighbors-beat-their-tokens-with-duplicates@own-tau": "does not hold",
            "neighbors-beat-their-tokens-each-once@own-tau": "holds",
        },
    )


@pytest.mark.parametrize(("whole", "still"), [(20.0, "does not hold"), (25.0, "holds")])
def test_the_last_entries_help_or_not(whole: float, still: str) -> None:
    """A quarter of the datastore, in two random parts, gains 20 nats on the mean."""
    parts = [replace(ATT, fraction=SMOKE_SCALE.small, draw=draw) for draw in range(2)]
    gains: Gained = {parts[0]: over(18), parts[1]: over(22), ATT: over(whole)}
    check(
        findings_of(gains),
        {"small-datastore-helps@own-tau": "holds", "last-entries-help@own-tau": still},
    )


@pytest.mark.parametrize(("wide", "less"), [(10.0, "holds"), (30.0, "does not hold")])
def test_larger_lms_gain_less_or_not(wide: float, less: str) -> None:
    narrow = paper_retrieval(SMOKE_SCALE, SMOKE_SCALE.widths[0])
    findings = findings_of({narrow: over(20), ATT: over(wide)})
    check(findings, {"larger-lms-gain-less@own-tau": less, f"knn-helps-{narrow.lm}": "holds"})
