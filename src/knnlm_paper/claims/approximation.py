"""Claims of section 5: approximate search, on the whole datastore and a small part, and the
retrieval temperature."""

from dataclasses import replace

from knnlm_paper.claims.claim import (
    ONE_TAU,
    OWN_TAU,
    TAU_1,
    THREE_TAUS,
    At,
    Claim,
    Term,
    better,
    less,
)
from knnlm_paper.claims.printed import printed_ratio
from knnlm_paper.claims.retrieval import mean_over_draws, three_taus
from knnlm_paper.expected import published
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import Scale

_TABLE_3 = "tab:knn_recompute"


def _settings(scale: Scale) -> tuple[Retrieval, Retrieval, Retrieval]:
    """The three settings of Table 3: an index, its neighbors with exact scores, exact search."""
    setting = paper_retrieval(scale)
    return setting, replace(setting, score="exact"), exactly(setting)


def approximation_claims(scale: Scale) -> list[Claim]:
    """Sections 5.1 and 5.2: does search with an index beat exact search, and by what?"""
    index, rescored, exact = _settings(scale)
    return [
        *three_taus(
            "index-beats-exact",
            "Search with an index beats exact search.",
            "section 5.1",
            index,
            exact,
            printed_ratio(_TABLE_3, exact, index),
        ),
        *three_taus(
            "index-neighbors-beat-exact-ones",
            "The index's neighbors beat the exact ones, with exact scores for both.",
            "section 5.1",
            rescored,
            exact,
            printed_ratio(_TABLE_3, exact, rescored),
        ),
        *_scores_and_neighbors(index, rescored, exact),
        *_small_datastore(scale),
    ]


def _scores_and_neighbors(index: Retrieval, rescored: Retrieval, exact: Retrieval) -> list[Claim]:
    """Which of the two matters: approximate scores, or approximate neighbors."""
    whole = printed_ratio(_TABLE_3, rescored, index)
    part = printed_ratio(_TABLE_3, exact, rescored)
    assert whole is not None
    assert part is not None
    claims: list[Claim] = []
    for at in (TAU_1, ONE_TAU):
        score, neighbors = better(index, rescored, at), better(rescored, exact, at)
        claims += [
            Claim(
                topic="index-scores-beat-exact-ones",
                at=at,
                sentence="The index's scores beat exact ones, for the same neighbors.",
                source="section 5.1",
                terms=score,
                paper=whole,
            ),
            Claim(
                topic="scores-matter-more-than-neighbors",
                at=at,
                sentence="Approximate scores matter more than approximate neighbors.",
                source="section 5.1",
                terms=score + less(neighbors),
                paper=(1 + whole) / (1 + part) - 1,
            ),
        ]
    own_scores, own_neighbors = (
        better(index, rescored, OWN_TAU),
        better(rescored, exact, OWN_TAU),
    )
    return [
        *claims,
        Claim(
            topic="exact-scores-beat-index-ones",
            at=OWN_TAU,
            sentence="Exact scores beat the index's, for the same neighbors.",
            source="section 5.2",
            terms=less(own_scores),
        ),
        Claim(
            topic="neighbors-matter-more-than-scores",
            at=OWN_TAU,
            sentence="Approximate neighbors matter more than approximate scores.",
            source="section 5.2",
            terms=own_neighbors + less(own_scores),
        ),
    ]


def _small_datastore(scale: Scale) -> list[Claim]:
    """The same on a small part of the datastore, averaged over its draws."""
    index, rescored, exact = _settings(scale)
    part = f"on {scale.small:.0%} of the datastore"

    def lead(a: Retrieval, b: Retrieval, at: At) -> tuple[Term, ...]:
        ahead = mean_over_draws(scale, a, scale.small, at, 1.0)
        return ahead + mean_over_draws(scale, b, scale.small, at, -1.0)

    leads = (
        ("index-beats-exact", "Search with an index beats exact search", index, exact),
        (
            "index-neighbors-beat-exact-ones",
            "The index's neighbors beat the exact ones",
            rescored,
            exact,
        ),
        ("index-scores-beat-exact-ones", "The index's scores beat exact ones", index, rescored),
    )
    claims = [
        Claim(
            topic=f"{topic}-small",
            at=at,
            sentence=f"{sentence} {part}.",
            source="section 5.2",
            terms=lead(a, b, at),
        )
        for at in THREE_TAUS
        for topic, sentence, a, b in leads
    ]
    return [
        *claims,
        Claim(
            topic="small-datastore-gains-more-from-an-index",
            at=OWN_TAU,
            sentence="A small datastore gains more from an index than the whole one.",
            source="section 5.2",
            terms=lead(index, exact, OWN_TAU) + less(better(index, exact, OWN_TAU)),
        ),
    ]


def temperature_claims(scale: Scale) -> list[Claim]:
    """Section 5.2: which temperature suits which setting."""
    index, rescored, exact = _settings(scale)
    small = replace(index, fraction=scale.small)
    near = "τ = 1 is near the best for an index and its scores"

    def tuned(topic: str, sentence: str, setting: Retrieval, **options: object) -> Claim:
        terms = better(setting, setting, OWN_TAU, TAU_1)
        return Claim(topic=topic, sentence=sentence, source="section 5.2", terms=terms, **options)  # type: ignore[arg-type]

    printed_gap = next(row.cells["gap"] for row in published()["text"] if "gap" in row.cells)
    return [
        tuned("tau-1-suits-the-index", f"{near}.", index, sense="same"),
        tuned(
            "tau-1-suits-the-index-small",
            f"{near}, on {scale.small:.0%} of the datastore.",
            small,
            sense="same",
        ),
        tuned(
            "own-tau-beats-tau-1-rescored",
            "The best τ beats τ = 1 for an index with exact scores.",
            rescored,
        ),
        tuned(
            "own-tau-beats-tau-1-exact",
            "The best τ beats τ = 1 for exact search.",
            exact,
            paper=printed_gap,
        ),
        *(
            Claim(
                topic=f"own-tau-beats-one-tau-{state}",
                sentence=f"With exact search by {state}, its own τ beats the one τ for all.",
                source="section 5.2",
                terms=better(setting, setting, OWN_TAU, ONE_TAU),
            )
            for state, setting in (("att", exact), ("ffn", replace(exact, state="ffn")))
        ),
    ]
