"""Claims of our own about substitutes of the store: how near to the neighbours' gain one comes
without a search. Knows no records."""

from knnlm_paper.conditions import Combined, FullDatastore, Learned
from knnlm_paper.experiments.beyond import combinations, mlp, taught
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.experiments.substitutes import STATES, both
from knnlm_paper.findings import Claim, better, gain, times
from knnlm_paper.learned_claims import recovers
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale

NEARLY_ALL = 0.9


def beyond_claims(scale: Scale) -> tuple[Claim, ...]:
    """Which substitutes have nine tenths of the neighbours' gain, over the LM and over the
    calibrated LM; and whether neighbours still help beside them."""
    shares = [
        claim
        for name, row in _tried(scale)
        for claim in (
            recovers(scale, name, row, NEARLY_ALL, "own_tau", "base"),
            recovers(scale, name, row, NEARLY_ALL, "on_calibrated", "calibrated"),
        )
    ]
    knn = exactly(paper_retrieval(scale))
    calibrated = Claim(
        name=f"calibrating the LM: {NEARLY_ALL:.0%} of the neighbours' gain",
        where="beyond",
        margin=0.0,
        says="A temperature and a unigram share, nothing retrieved or learned.",
        given=gain(knn, "own_tau"),
        terms=(*gain(knn, "calibrated"), *times(-NEARLY_ALL, gain(knn, "own_tau"))),
    )
    helped = Combined((Learned(),), (knn,))
    more = combinations(scale)[-1]
    return (
        calibrated,
        *shares,
        *_alike(scale),
        Claim(
            name="neighbours still help beside a head on att",
            where="beyond",
            says="What they add is not all learned.",
            terms=better(helped, Learned(), "own_tau"),
        ),
        Claim(
            name="neighbours still help beside all substitutes",
            where="beyond",
            says="What they add is not all learned.",
            terms=better(more, Combined(more.parts), "on_calibrated"),
        ),
    )


def _tried(scale: Scale) -> list[tuple[str, Learned | Combined]]:
    """The substitutes without a search, named."""
    n = scale.learning.clusters[0]
    return [
        ("a head on att", Learned()),
        ("heads on att and ffn", both()),
        ("a network", mlp(scale)),
        (f"{n}V clusters of att, learned further", clusters_of("att", n, fitted=True)),
        *(
            (f"{size:g}V clusters of {state}", clusters_of(state, size))
            for size in (*scale.learning.fewer[:1], n)
            for state in STATES
        ),
        *(
            (
                f"{'a network' if row.component == 'mlp' else 'a head on att'}, {row.soft:.0%} "
                "taught by neighbours",
                row,
            )
            for row in taught(scale)
        ),
        *((row.label, row) for row in combinations(scale) if not row.neighbors),
    ]


def _alike(scale: Scale) -> list[Claim]:
    """Whether clusters do what all rows do, without a mask."""
    n = scale.learning.clusters[0]
    return [
        Claim(
            name=f"{n}V clusters of {state} do what all rows do (over the calibrated LM)",
            where="beyond",
            sense="same",
            says="Pressing the store loses little of what it says without a mask.",
            terms=better(clusters_of(state, n), FullDatastore(state=state), "on_calibrated"),
        )
        for state in STATES
    ]
