"""The audit in one table: what the paper's code did, what that could explain, and whether it does here."""

from collections.abc import Mapping
from typing import NamedTuple

from knnlm.paper.claims import FIELDS
from knnlm.paper.doubts import learned_alike
from knnlm.paper.findings import Finding, Verdict
from knnlm.paper.present.content import Part, Table
from knnlm.paper.present.words import numbers
from knnlm.paper.recipes.audit import paper_share
from knnlm.paper.scales import Scale

Named = Mapping[str, Finding]
_OWN, _ONE = f"({FIELDS['tuned']})", f"({FIELDS['tau_1']})"
_LEAD = "most of att's lead over ffn is temperature"


class Confound(NamedTuple):
    """Something about the code, what it could explain, the claim that tells, and in which case it does."""

    did: str
    could: str
    claim: str
    tested: str
    if_so: Verdict = "holds"


def confounds(scale: Scale) -> tuple[Confound, ...]:
    """All of them, the best known first."""
    zeros, most = f"{paper_share(scale):.0%} zero rows", scale.learning.sizes[-1]
    return (
        Confound("It compared every setting at τ = 1 (F7)", "that att beats ffn", _LEAD,
                 "att, not ffn: at one τ for all, and each at its own"),
        Confound("It reads att behind a LayerNorm, and ffn before any", "that att beats ffn",
                 f"att beats ffn, both normalised {_OWN}", "att, not ffn, with a LayerNorm for both",
                 "does not hold"),
        Confound("By its commands, a quarter of the store are rows of zeros (F1)",
                 "that exact search loses to the index", f"{zeros} hurt exact search more than the index {_OWN}",
                 "no zero rows: exact search against the index"),
        Confound("… the same", "that L2 loses to IP (inner product)", f"{zeros} hurt L2 more than IP {_OWN}",
                 "no zero rows: L2 against IP"),
        Confound("As committed, ffn with IP has its sign flipped (F4)", "that ffn with IP is the worst",
                 f"ffn with IP: right sign beats the committed one {_OWN}", "the right sign, not the committed one"),
        Confound("True scores of an index's neighbours were in fp16 (F6)",
                 "that the index's neighbours beat the true ones", f"fp16 scores change little {_OWN}",
                 "fp16, not fp32", "does not hold"),
        Confound("λ was tuned on the text it was reported on (F2)", "perplexities that are too low",
                 f"λ tuned on the reported text changes little {_ONE}", "λ of the reported text, not of another",
                 "does not hold"),
        Confound("Embeddings were learned by a recipe that changed with their number (F5)",
                 f"that {most} embeddings a word are worse than one (att)", learned_alike(scale),
                 f"{most} embeddings a word, not one, by one recipe"),
    )  # fmt: skip


def audit_parts(named: Named, scale: Scale) -> list[Part]:
    """The table, and what it comes to; nothing where nothing was measured."""
    rows, explained = [], {"yes": list[str](), "no": list[str](), "undecided": list[str]()}
    for c in confounds(scale):
        if (f := named.get(c.claim)) is None:
            continue
        says = {"undecided": "undecided", "no question": "no"}.get(f.verdict, "yes" if f.verdict == c.if_so else "no")
        explained[says].append(c.could)
        effect = numbers(f, paper=False) if c.claim != _LEAD else _two_leads(named)
        rows.append((c.did, c.could, f"**{says}**", c.tested, effect))
    if not rows:
        return []
    words = {"yes": "Of the paper's results, what its code would explain here", "no": "what it would not",
             "undecided": "undecided"}  # fmt: skip
    told = [f"{words[says]}: {', '.join(dict.fromkeys(coulds))}" for says, coulds in explained.items() if coulds]
    columns = ("what the paper's code did", "could explain", "does it here?", "effect of", "effect")
    return [
        Table(columns, tuple(rows)),
        f"{'; '.join(told)}. F1 to F7 are explained in docs/reproduce.md, “The paper's code”; F3 is about units and "
        "changes no direction.",
    ]


def _two_leads(named: Named) -> str:
    """att's lead over ffn at one τ and with each at its own."""
    one, own = (named[f"att beats ffn ({FIELDS[field]})"] for field in ("shared", "tuned"))
    return f"{numbers(one, paper=False)} at one τ, {numbers(own, paper=False)} each at its own"
