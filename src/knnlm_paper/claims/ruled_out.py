"""Claims about the hypotheses that the paper ruled out (section 6, appendix E).

The paper mixes with the LM as it is. What only corrects the LM's own sharpness (a sparse list of
its likeliest tokens at a high temperature, a second LM) gains there what calibrating it gains, so
every claim is asked over the calibrated LM too; in an ensemble every LM is then calibrated."""

from knnlm.evaluation.comparison import Sense
from knnlm_paper.claims.claim import (
    CALIBRATED,
    OWN_TAU,
    PLAIN_AND_CALIBRATED,
    Claim,
    Compared,
    Term,
    better,
    gain,
)
from knnlm_paper.claims.printed import gain_of, lead_of
from knnlm_paper.conditions import TokenList
from knnlm_paper.expected import printed_row, published
from knnlm_paper.experiments.ensembling import (
    memory_and_neighbors,
    two_stores,
    with_head,
    with_lms,
    with_one,
)
from knnlm_paper.experiments.ruled_out import by_choice, by_distance
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def ruled_out_claims(scale: Scale) -> list[Claim]:
    """In the paper's order, then the two ensembles that it suggests."""
    return [
        *_metric(scale),
        *_sparsity(scale),
        *_ensembles(scale),
        *_memory(scale),
        *_soft_labels(scale),
        *_together(scale),
    ]


def _helps(
    topic: str,
    sentence: str,
    source: str,
    row: Compared,
    paper: float | None = None,
    sense: Sense = "more",
) -> list[Claim]:
    """What a condition gains, over the LM and over the calibrated LM."""
    terms = (gain(row, OWN_TAU), gain(row, CALIBRATED))
    return _over_both(topic, sentence, source, terms, paper, sense)


def _beats(
    topic: str,
    sentence: str,
    source: str,
    a: Compared,
    b: Compared,
    paper: float | None = None,
    sense: Sense = "more",
) -> list[Claim]:
    """Whether one condition beats another, over the LM and over the calibrated LM."""
    terms = (better(a, b, OWN_TAU), better(a, b, CALIBRATED))
    return _over_both(topic, sentence, source, terms, paper, sense)


def _over_both(
    topic: str,
    sentence: str,
    source: str,
    terms: tuple[tuple[Term, ...], ...],
    paper: float | None,
    sense: Sense,
) -> list[Claim]:
    return [
        Claim(
            topic=topic,
            at=at,
            sentence=sentence,
            source="beyond" if at is CALIBRATED else source,
            terms=each,
            sense=sense,
            paper=None if at is CALIBRATED else paper,
        )
        for at, each in zip(PLAIN_AND_CALIBRATED, terms, strict=True)
    ]


def _metric(scale: Scale) -> list[Claim]:
    claims: list[Claim] = []
    for state in STATES:
        claims += _helps(
            f"retrieved-tokens-by-l2-do-not-help-{state}",
            f"The tokens retrieved by {state}, scored by their L2 distance to W_sm, do not help.",
            "appendix E.1",
            by_distance(scale, state),
            sense="no more",
        )
    claims += _beats(
        "neighbors-beat-retrieved-tokens-by-l2",
        "Neighbors beat the tokens they retrieve scored by their L2 distance to W_sm.",
        "beyond",
        exactly(paper_retrieval(scale)),
        by_distance(scale, "att"),
    )
    return claims


def _sparsity(scale: Scale) -> list[Claim]:
    knn = exactly(paper_retrieval(scale))
    claims: list[Claim] = []
    for k in scale.ruled_out.lists:
        claims += _helps(
            f"likeliest-{k}-tokens-do-not-help",
            f"The LM's own {k:,} likeliest tokens, renormalized, do not help.",
            "appendix E.2",
            TokenList(k=k),
            sense="no more",
        )
    for duplicates, words in ((True, "with duplicates"), (False, "each once")):
        claims += _beats(
            f"neighbors-beat-their-tokens-{words.replace(' ', '-')}",
            f"Neighbors beat the tokens they retrieve scored by the LM ({words}).",
            "appendix E.2",
            knn,
            by_choice(scale, duplicates),
        )
    return claims


def _ensembles(scale: Scale) -> list[Claim]:
    source, names = "appendix E.5", scale.ruled_out.ensemble
    theirs = {row.fields["size"]: row for row in published()["tab:ensembling"]}
    neighbors = printed_row("tab:knn_baselines", name="kNN-LM-L2")
    claims: list[Claim] = []
    for lm in names:
        paper = gain_of(theirs[scale.lm(lm).preset.embeddings])
        sentence = f"A second LM ({lm}) helps the LM."
        claims += _helps(f"second-lm-helps-{lm}", sentence, source, with_one(lm), paper)
    claims += _helps(
        "neighbors-help-1-lm",
        "Neighbors help one LM, all weights fitted together.",
        "beyond",
        with_lms(scale, 0, knn=True),
    )
    claims += _beats(
        "second-lm-beats-neighbors",
        f"A second LM ({names[0]}) helps more than neighbors.",
        source,
        with_one(names[0]),
        with_lms(scale, 0, knn=True),
        lead_of(theirs[1], neighbors),
    )
    for count in range(2, len(names) + 1):
        claims += _beats(
            f"neighbors-beat-lm-{count + 1}",
            f"{count} LMs with neighbors beat {count + 1} LMs.",
            source,
            with_lms(scale, count - 1, knn=True),
            with_lms(scale, count),
        )
    for count in range(1, len(names) + 1):
        claims += _beats(
            f"neighbors-help-{count + 1}-lms",
            f"Neighbors help {count + 1} LMs.",
            "beyond",
            with_lms(scale, count, knn=True),
            with_lms(scale, count),
        )
    return claims


def _memory(scale: Scale) -> list[Claim]:
    steps = scale.lm("memorised").preset.keep
    longest = gain_of(published()["tab:overfit"][-1])
    claims: list[Claim] = []
    for step in steps:
        claims += _helps(
            f"memorizing-lm-does-not-help-{step}",
            f"An LM that memorizes the text ({step:,} updates further) does not help.",
            "appendix E.6.1",
            with_one("memorised", step),
            longest if step == steps[-1] else None,
            "no more",
        )
    memory = with_one("memorised", steps[-1])
    claims += _beats(
        "neighbors-help-beside-memory",
        "Neighbors still help beside an LM that memorizes the text.",
        "beyond",
        memory_and_neighbors(scale),
        memory,
    )
    claims += _beats(
        "neighbors-beat-memory",
        "Neighbors help more than an LM that memorizes the text.",
        "beyond",
        with_lms(scale, 0, knn=True),
        memory,
    )
    claims += _beats(
        "second-lm-beats-memory",
        "A second LM helps more than one that memorizes the text.",
        "beyond",
        with_one(scale.seeds[1]),
        memory,
    )
    return claims


def _soft_labels(scale: Scale) -> list[Claim]:
    taught, taught_by_knn = with_one("taught-by-lm"), with_one("taught-by-knn-lm")
    return [
        *_helps(
            "soft-labels-do-not-help",
            "An LM that learned from the LM's soft labels does not help.",
            "appendix E.6.2",
            taught,
            sense="no more",
        ),
        *_beats(
            "soft-labels-no-better-than-text",
            "An LM that learned from the LM's soft labels is no better than one that learned from "
            "the text.",
            "beyond",
            taught,
            with_one(scale.seeds[1]),
            sense="no more",
        ),
        *_beats(
            "knn-labels-beat-soft-labels",
            "An LM that learned from the kNN-LM is better than one that learned from the LM.",
            "beyond",
            taught_by_knn,
            taught,
        ),
    ]


def _together(scale: Scale) -> list[Claim]:
    knn = exactly(paper_retrieval(scale))
    return [
        *_beats(
            "ffn-neighbors-help-beside-att",
            "Neighbors by ffn still help beside neighbors by att.",
            "beyond",
            two_stores(scale),
            knn,
        ),
        *_beats(
            "head-helps-beside-neighbors",
            "A learned head on att still helps beside neighbors.",
            "beyond",
            with_head(scale),
            knn,
        ),
    ]
