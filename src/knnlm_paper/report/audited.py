"""The audit in one table: what the paper's code did, what that could explain, and whether it does
here."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from knnlm.report.document import Block
from knnlm_paper.claims import FIELDS
from knnlm_paper.doubts import more_are_worse
from knnlm_paper.experiments.audit import paper_share
from knnlm_paper.findings import Finding, Verdict
from knnlm_paper.report.formats import make_table
from knnlm_paper.report.words import numbers
from knnlm_paper.scales import Scale

Named = Mapping[str, Finding]
_OWN, _ONE = f"({FIELDS['own_tau']})", f"({FIELDS['tau_1']})"
_LEAD = f"att beats ffn {_OWN}"


class Confound(NamedTuple):
    """Something about the code, which result it could explain, and the claim that tells: by taking
    it away from the result (`without`) or by adding it (`with`); and which verdict speaks for
    it."""

    did: str
    could: str
    way: Literal["without", "with"]
    claim: str
    tested: str
    if_so: Verdict = "holds"


def confounds(scale: Scale) -> tuple[Confound, ...]:
    """All of them, the best known first."""
    return (*_of_states(), *_of_rows(scale), *_of_tuning(scale))


def _of_states() -> tuple[Confound, ...]:
    """What could explain that att beats ffn."""
    return (
        Confound(
            "It compared every setting at τ = 1 (F7)",
            "that att beats ffn",
            "without",
            _LEAD,
            "att, not ffn: at one τ for all, and each at its own",
            "does not hold",
        ),
        Confound(
            "It reads att behind a LayerNorm, and ffn before any",
            "that att beats ffn",
            "without",
            f"att beats ffn, both normalised ({FIELDS['one_tau']})",
            "att, not ffn, at one τ for all, with a LayerNorm for both",
            "does not hold",
        ),
    )


def _of_rows(scale: Scale) -> tuple[Confound, ...]:
    """What the stored rows or their scores could explain."""
    zeros = f"{paper_share(scale):.0%} zero rows"
    return (
        Confound(
            "By its commands, a quarter of the store are rows of zeros (F1)",
            "that exact search loses to the index",
            "with",
            f"{zeros} hurt exact search more than the index {_OWN}",
            "no zero rows: how much more that helps exact search than the index",
        ),
        Confound(
            "… the same",
            "that L2 loses to IP (inner product)",
            "with",
            f"{zeros} hurt L2 more than IP {_OWN}",
            "no zero rows: how much more that helps L2 than IP",
        ),
        Confound(
            "As committed, ffn with IP has its sign flipped (F4)",
            "that ffn with IP is the worst",
            "with",
            f"ffn with IP: right sign beats the committed one {_OWN}",
            "the right sign, not the committed one",
        ),
        Confound(
            "True scores of an index's neighbours were in fp16 (F6)",
            "that the index's neighbours beat the true ones",
            "with",
            f"FAISS mask beats real mask, scores in fp16 and fp32 as in the paper {_OWN}",
            "the index's neighbours in fp16, not the true ones in fp32",
        ),
    )


def _of_tuning(scale: Scale) -> tuple[Confound, ...]:
    """What tuning and learning could explain."""
    most = scale.learning.sizes[-1]
    return (
        Confound(
            "λ was tuned on the text it was reported on (F2)",
            "perplexities that are too low",
            "with",
            f"λ tuned on the reported text changes little {_ONE}",
            "λ of the reported text, not of another",
            "does not hold",
        ),
        Confound(
            "Embeddings were learned by a recipe that changed with their number (F5)",
            f"that {most} embeddings a word are worse than one (att)",
            "without",
            more_are_worse(scale),
            f"one embedding a word, not {most}, by one recipe",
            "does not hold",
        ),
    )


_SAYS = {
    ("without", True): "gone without it",
    ("without", False): "there without it",
    ("with", True): "pushes that way",
    ("with", False): "does not",
}


def audit_parts(named: Named, scale: Scale) -> list[Block]:
    """How to read the table, and the table; nothing where nothing was measured."""
    rows = []
    for c in confounds(scale):
        if (f := named.get(c.claim)) is None:
            continue
        open_ = f.verdict in ("undecided", "no question")
        says = f.verdict if open_ else _SAYS[c.way, f.verdict == c.if_so]
        effect = numbers(f, paper=False) if c.claim != _LEAD else _two_leads(named)
        rows.append((c.did, c.could, f"**{says}**", c.tested, effect))
    if not rows:
        return []
    columns = (
        "what the paper's code did",
        "a result that it could explain",
        "here",
        "effect of",
        "effect",
    )
    return [
        "Read from the published code; what was run for the paper may have differed. *Gone without "
        "it*: the paper's "
        "result is not seen here once that is taken away. *Pushes that way*: added here, it moves "
        "the numbers as the "
        "result has them. *Does not*: it does not explain the result.",
        make_table(columns, tuple(rows)),
        "F1 to F7 are explained in docs/reproduce.md, “The paper's code”; F3 is about units and "
        "changes no direction.",
    ]


def _two_leads(named: Named) -> str:
    """att's lead over ffn at one τ and with each at its own."""
    one, own = (named[f"att beats ffn ({FIELDS[field]})"] for field in ("one_tau", "own_tau"))
    return f"{numbers(one, paper=False)} at one τ, {numbers(own, paper=False)} each at its own"
