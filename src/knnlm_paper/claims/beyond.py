"""Claims of our own about components learned from entries: how near to the neighbors' gain one
comes without a search."""

from knnlm_paper.claims.claim import (
    CALIBRATED,
    OWN_TAU,
    PLAIN_AND_CALIBRATED,
    Claim,
    better,
    gain,
    times,
)
from knnlm_paper.claims.substitutes import recovers
from knnlm_paper.conditions import Combined, FullDatastore, Learned
from knnlm_paper.experiments.beyond import combinations, mlp, taught
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.experiments.substitutes import STATES, both
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale

NEARLY_ALL = 0.9


def beyond_claims(scale: Scale) -> list[Claim]:
    """Which components have nine tenths of the neighbors' gain, over the LM and over the calibrated
    LM; and whether neighbors still help beside them."""
    knn = exactly(paper_retrieval(scale))
    everything = combinations(scale)[-1]
    return [
        Claim(
            topic=f"calibration-has-{100 * NEARLY_ALL:.0f}-percent",
            sentence=f"Calibrating the LM has {NEARLY_ALL:.0%} of what neighbors gain.",
            source="beyond",
            margin=0.0,
            given=gain(knn, OWN_TAU),
            terms=(
                *better(knn, knn, "calibrated", "base"),
                *times(-NEARLY_ALL, gain(knn, OWN_TAU)),
            ),
        ),
        *(
            recovers(scale, topic, name, row, NEARLY_ALL, at)
            for topic, name, row in tried(scale)
            for at in PLAIN_AND_CALIBRATED
        ),
        *_like_the_full_datastore(scale),
        Claim(
            topic="neighbors-help-beside-a-head",
            at=OWN_TAU,
            sentence="Neighbors still help beside a learned head on att.",
            source="beyond",
            terms=better(Combined((Learned(),), (knn,)), Learned(), OWN_TAU),
        ),
        Claim(
            topic="neighbors-help-beside-all-components",
            at=CALIBRATED,
            sentence="Neighbors still help beside all learned components together.",
            source="beyond",
            terms=better(everything, Combined(everything.parts), CALIBRATED),
        ),
    ]


def tried(scale: Scale) -> list[tuple[str, str, Learned | Combined]]:
    """The components without a search: topic, name in a sentence, condition."""
    size = scale.learning.clusters[0]
    small = scale.learning.fewer_clusters[:1]
    every: list[Learned | Combined] = [
        Learned(),
        both(),
        mlp(scale),
        clusters_of("att", size, fitted=True),
        *(clusters_of(state, count) for count in (*small, size) for state in STATES),
        *taught(scale),
        *(row for row in combinations(scale) if not row.neighbors),
    ]
    return [(_topic(row), _capitalized(describe(row)), row) for row in every]


def describe(row: Learned | Combined) -> str:
    """A component, or several together, in words."""
    if isinstance(row, Learned):
        return _part(row)
    parts = [*map(_part, row.parts), *(f"neighbors by {each.state}" for each in row.neighbors)]
    return " with ".join([parts[0], ", ".join(parts[1:])]) if len(parts) > 1 else parts[0]


def _part(row: Learned) -> str:
    match row.component:
        case "mlp":
            name = "an MLP"
        case "clusters":
            further = ", trained further" if row.fitted else ""
            name = f"{row.size:g}V clusters of {row.state}{further}"
        case "mixture-of-softmaxes":
            name = f"a mixture of {row.size:g} softmaxes on {row.state}"
        case "head":
            name = f"a learned head on {row.state}"
    return name + (f" ({row.soft:.0%} taught by neighbors)" if row.soft else "")


def _topic(row: Learned | Combined) -> str:
    if isinstance(row, Combined):
        return "+".join(_topic(part) for part in row.parts)
    match row.component:
        case "mlp":
            name = "mlp"
        case "clusters":
            name = f"{'trained-' if row.fitted else ''}clusters-of-{row.state}-{row.size:g}V"
        case "mixture-of-softmaxes":
            name = f"softmaxes-on-{row.state}-{row.size:g}"
        case "head":
            name = f"head-on-{row.state}"
    return name + (f"-taught-{100 * row.soft:.0f}" if row.soft else "")


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _like_the_full_datastore(scale: Scale) -> list[Claim]:
    """Whether clusters do what all entries do, without mask-to-k."""
    size = scale.learning.clusters[0]
    return [
        Claim(
            topic=f"clusters-of-{state}-do-what-all-entries-do",
            at=CALIBRATED,
            sentence=f"{size}V clusters of {state} do what all entries together do.",
            source="beyond",
            sense="same",
            terms=better(clusters_of(state, size), FullDatastore(state=state), CALIBRATED),
        )
        for state in STATES
    ]
