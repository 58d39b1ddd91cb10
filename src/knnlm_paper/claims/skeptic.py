"""Claims of a skeptic: is it calibration? Does it need a mask, all dimensions, this index?"""

from dataclasses import replace

from knnlm_paper.claims.claim import (
    CALIBRATED,
    OWN_TAU,
    PLAIN_AND_CALIBRATED,
    Claim,
    better,
    gain,
)
from knnlm_paper.conditions import FullDatastore
from knnlm_paper.expected import published
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def skeptic_claims(scale: Scale) -> list[Claim]:
    """Calibration first, then the mask, fewer dimensions and other indexes."""
    knn = exactly(paper_retrieval(scale))
    return [
        Claim(
            topic="knn-beats-calibration",
            sentence="Neighbors gain more than calibrating the LM does.",
            source="skeptic",
            terms=gain(knn, OWN_TAU, "calibrated"),
        ),
        Claim(
            topic="knn-helps-exact",
            at=CALIBRATED,
            sentence="Neighbors lower the LM's perplexity, with exact search.",
            source="skeptic",
            terms=gain(knn, CALIBRATED),
        ),
        *_reasons_over_the_calibrated_lm(scale),
        *_all_entries(scale),
        *_fewer_dimensions(scale),
        *other_index_claims(scale),
    ]


def _reasons_over_the_calibrated_lm(scale: Scale) -> list[Claim]:
    """The paper's first two reasons where only what retrieval itself knows can gain."""
    index = paper_retrieval(scale)
    ffn, exact = replace(index, state="ffn"), exactly(index)
    leads = (
        ("att-beats-ffn", "Searching by att beats searching by ffn", index, ffn),
        (
            "att-beats-ffn-exact",
            "Searching by att beats searching by ffn, with exact search",
            exact,
            exactly(ffn),
        ),
        ("index-beats-exact", "Search with an index beats exact search", index, exact),
        (
            "index-neighbors-beat-exact-ones",
            "The index's neighbors beat the exact ones, with exact scores for both",
            replace(index, score="exact"),
            exact,
        ),
    )
    return [
        Claim(
            topic=topic,
            at=CALIBRATED,
            sentence=f"{sentence}.",
            source="skeptic",
            terms=better(a, b, CALIBRATED),
        )
        for topic, sentence, a, b in leads
    ]


def _all_entries(scale: Scale) -> list[Claim]:
    """mask-to-k left out."""
    knn = exactly(paper_retrieval(scale))
    return [
        Claim(
            topic=f"all-entries-beat-the-nearest-{state}",
            at=at,
            sentence=f"All entries together beat the nearest {knn.k:,}, by {state}.",
            source="skeptic",
            terms=better(FullDatastore(state=state), replace(knn, state=state), at),
        )
        for state in STATES
        for at in PLAIN_AND_CALIBRATED
    ]


def _fewer_dimensions(scale: Scale) -> list[Claim]:
    """Principal components of the keys (He et al., 2021, found them to lower perplexity)."""
    knn = exactly(paper_retrieval(scale))
    theirs = next(row.cells for row in published()["text"] if "before" in row.cells)
    return [
        Claim(
            topic=f"{width}-principal-components-help",
            at=OWN_TAU,
            sentence=f"{width} principal components of the states beat all of their dimensions.",
            source="section 5.2",
            terms=better(replace(knn, width=width), knn, OWN_TAU),
            paper=theirs["before"] / theirs["after"] - 1 if width == scale.components[0] else None,
        )
        for width in scale.components
    ]


def other_index_claims(scale: Scale) -> list[Claim]:
    """That one of the further indexes beats exact search."""
    index = paper_retrieval(scale)
    return [
        Claim(
            topic=f"{factory}-probing-{nprobe}-beats-exact",
            at=OWN_TAU,
            sentence=f"{factory} with {nprobe} list{'s' if nprobe > 1 else ''} probed beats exact "
            "search.",
            source="section 5.2",
            terms=better(replace(index, factory=factory, nprobe=nprobe), exactly(index), OWN_TAU),
        )
        for factory, nprobe in scale.factories
    ]
