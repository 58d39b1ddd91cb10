"""Claims about the hypotheses that the paper ruled out (section 6, appendix E). Knows no records.

The paper mixes with the LM as it is. What only corrects the LM's own peakiness (a sparse list of
its likeliest words at a high temperature, a second LM) gains there what calibrating it gains, so
every claim is asked over the calibrated LM too; in an ensemble every LM is then calibrated."""

from collections.abc import Sequence
from typing import Literal

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
from knnlm_paper.findings import OVER, Claim, Compared, Term, better, gain
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale

Sense = Literal["more", "same", "no more"]


def ruled_claims(scale: Scale) -> tuple[Claim, ...]:
    """In the paper's order, then the two ensembles that it suggests."""
    return (
        *_metric(scale),
        *_sparsity(scale),
        *_ensembles(scale),
        *_training(scale),
        *_together(scale),
    )


def _over(
    name: str,
    says: str,
    where: str,
    terms: dict[str, Sequence[Term]],
    paper: float | None,
    sense: Sense = "more",
) -> list[Claim]:
    """A claim over the LM, with the paper's effect beside it, and over the calibrated LM."""
    return [
        Claim(
            name=f"{name}{over}",
            says=says,
            where="beyond" if over else where,
            terms=tuple(terms[field]),
            sense=sense,
            paper=None if over else paper,
        )
        for field, (_, over) in OVER.items()
    ]


def gains(row: Compared) -> dict[str, Sequence[Term]]:
    """What something gains over the LM, and over the calibrated LM."""
    return {field: gain(row, field, base) for field, (base, _) in OVER.items()}


def _leads(a: Compared, b: Compared) -> dict[str, Sequence[Term]]:
    return {field: better(a, b, field) for field in OVER}


def _metric(scale: Scale) -> list[Claim]:
    where = "appendix E.1"
    knn = exactly(paper_retrieval(scale))
    found: list[Claim] = []
    for state in STATES:
        found += _over(
            f"retrieved words by their L2 to W_sm do not help ({state})",
            "A second metric alone is not the reason.",
            where,
            gains(by_distance(scale, state)),
            None,
            "no more",
        )
    return [
        *found,
        *_over(
            "neighbours beat retrieved words by their L2 to W_sm (att)",
            "What is stored matters beyond which words are chosen.",
            "beyond",
            _leads(knn, by_distance(scale, "att")),
            None,
        ),
    ]


def _sparsity(scale: Scale) -> list[Claim]:
    where, knn = "appendix E.2", exactly(paper_retrieval(scale))
    found: list[Claim] = []
    for k in scale.ruled_out.lists:
        found += _over(
            f"the LM's own {k} likeliest words do not help",
            "Sparsity alone is not the reason.",
            where,
            gains(TokenList(k=k)),
            None,
            "no more",
        )
    for duplicates, words in ((True, "with duplicates"), (False, "each once")):
        found += _over(
            f"neighbours beat their words without their distances ({words})",
            "The distances matter beyond which words are chosen.",
            where,
            _leads(knn, by_choice(scale, duplicates)),
            None,
        )
    return found


def _ensembles(scale: Scale) -> list[Claim]:
    where, names = "appendix E.5", scale.ruled_out.ensemble
    theirs = {row.fields["size"]: row for row in published()["tab:ensembling"]}
    neighbours = printed_row("tab:knn_baselines", name="kNN-LM-L2")
    found: list[Claim] = []
    for lm in names:
        found += _over(
            f"a second LM helps ({lm})",
            "Another LM of the same kind, mixed in.",
            where,
            gains(with_one(lm)),
            1 / (1 + theirs[scale.lm(lm).preset.embeddings].change) - 1,
        )
    found += _over(
        "neighbours help one LM",
        "As an ensemble of it and them.",
        "beyond",
        gains(with_lms(scale, 0, knn=True)),
        None,
    )
    found += _over(
        f"a second LM helps more than neighbours ({names[0]})",
        "At the same number of components.",
        where,
        _leads(with_one(names[0]), with_lms(scale, 0, knn=True)),
        (1 + neighbours.change) / (1 + theirs[1].change) - 1,
    )
    for count in range(2, len(names) + 1):
        found += _over(
            f"{count} LMs with neighbours beat {count + 1} LMs",
            "Neighbours are worth more than a further LM.",
            where,
            _leads(with_lms(scale, count - 1, knn=True), with_lms(scale, count)),
            None,
        )
    for count in range(1, len(names) + 1):
        found += _over(
            f"neighbours still help {count + 1} LMs",
            "What they add is not what ensembling adds.",
            "beyond",
            _leads(with_lms(scale, count, knn=True), with_lms(scale, count)),
            None,
        )
    return found


def _training(scale: Scale) -> list[Claim]:
    found: list[Claim] = []
    steps = scale.lm("memorised").preset.keep
    theirs = 1 / (1 + published()["tab:overfit"][-1].change) - 1  # of its longest training
    for step in steps:
        found += _over(
            f"a memorising LM does not help ({step:,} updates further)",
            "Memory alone is not the reason.",
            "appendix E.6.1",
            gains(with_one("memorised", step)),
            theirs if step == steps[-1] else None,
            "no more",
        )
    memory = with_one("memorised", steps[-1])
    found += _over(
        "neighbours still help beside a memorising LM",
        "They are not the same memory.",
        "beyond",
        _leads(memory_and_neighbors(scale), memory),
        None,
    )
    found += _over(
        "neighbours help more than a memorising LM",
        "Each with the main LM.",
        "beyond",
        _leads(with_lms(scale, 0, knn=True), memory),
        None,
    )
    where, seed = "appendix E.6.2", scale.seeds[1]
    found += _over(
        "a memorising LM helps less than a second LM",
        "At its longest training.",
        "beyond",
        _leads(with_one(seed), memory),
        None,
    )
    student, knn_student = with_one("taught-by-lm"), with_one("taught-by-knn-lm")
    found += _over(
        "an LM taught by the LM does not help",
        "Soft labels alone are not the reason.",
        where,
        gains(student),
        None,
        "no more",
    )
    found += _over(
        "an LM taught by the LM is no better than one taught by the text",
        "The same start and data, mixed with the LM.",
        "beyond",
        _leads(student, with_one(seed)),
        None,
        "no more",
    )
    found += _over(
        "an LM taught by the kNN-LM is better than one taught by the LM",
        "What neighbours add can be taught.",
        "beyond",
        _leads(knn_student, student),
        None,
    )
    return found


def _together(scale: Scale) -> list[Claim]:
    knn = exactly(paper_retrieval(scale))
    return [
        *_over(
            "ffn's neighbours still help beside att's",
            "Two stores at once.",
            "beyond",
            _leads(two_stores(scale), knn),
            None,
        ),
        *_over(
            "a learned head still helps beside neighbours",
            "Neighbours and a head on att at once.",
            "beyond",
            _leads(with_head(scale), knn),
            None,
        ),
    ]
