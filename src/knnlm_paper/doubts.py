"""Claims that are not the paper's: what a sceptic doubts, and what the audit of its code asks.
Knows no records."""

from dataclasses import replace

from knnlm_paper.claims import FIELDS, ratio
from knnlm_paper.conditions import FullDatastore, Learned
from knnlm_paper.expected import printed_row, published
from knnlm_paper.experiments.audit import paper_share
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.findings import OVER, OVER_CALIBRATED, Claim, better, gain, less
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def doubts(scale: Scale) -> tuple[Claim, ...]:
    """A sceptic's."""
    arm = paper_retrieval(scale)
    found = [
        Claim(
            name="kNN beats the calibrated LM",
            says="More is gained than a temperature and a unigram share would gain.",
            where="sceptic",
            terms=gain(exactly(arm), "own_tau", "calibrated"),
        ),
        Claim(
            name="kNN helps the calibrated LM",
            says="Mixed with the calibrated LM it still helps.",
            where="sceptic",
            terms=gain(exactly(arm), "on_calibrated", "calibrated"),
        ),
        *_over_calibrated(scale),
    ]
    for state in STATES:
        near = replace(exactly(arm), state=state)
        found += [
            Claim(
                name=all_beat_nearest(scale, state, over),
                where="sceptic",
                says="The mask costs something: farther rows have a say too.",
                terms=better(FullDatastore(state=state), near, field),
            )
            for field, (_, over) in OVER.items()
        ]
    theirs = next(row.cells for row in published()["text"] if "before" in row.cells)
    for width in scale.components:
        found.append(
            Claim(
                name=f"{width} principal components beat all",
                says="PCA of the keys lowers perplexity (He et al., 2021).",
                where="section 5.2",
                terms=better(replace(exactly(arm), width=width), exactly(arm), "own_tau"),
                paper=theirs["before"] / theirs["after"] - 1
                if width == scale.components[0]
                else None,
            )
        )
    for factory, nprobe in scale.factories:
        other = replace(arm, factory=factory, nprobe=nprobe)
        found.append(
            Claim(
                name=f"{factory} with {nprobe} probed beats exact search",
                says="This approximation helps.",
                where="section 5.2",
                terms=better(other, exactly(arm), "own_tau"),
            )
        )
    return tuple(found)


def _over_calibrated(scale: Scale) -> list[Claim]:
    """The paper's first two reasons where only what retrieval itself knows can gain."""
    arm = paper_retrieval(scale)
    ffn, real = replace(arm, state="ffn"), exactly(arm)
    leads = {
        "att beats ffn": (arm, ffn),
        "att beats ffn, exact search": (real, exactly(ffn)),
        "approximate beats exact search": (arm, real),
        "FAISS mask beats real mask": (replace(arm, score="exact"), real),
    }
    return [
        Claim(
            name=f"{name}{OVER_CALIBRATED}",
            says="Mixed with the calibrated LM, each at its own τ.",
            where="sceptic",
            terms=better(a, b, "on_calibrated"),
        )
        for name, (a, b) in leads.items()
    ]


def all_beat_nearest(scale: Scale, state: str, over: str = "") -> str:
    """The name of a claim about the mask."""
    return f"all rows beat the nearest {paper_retrieval(scale).k:,} ({state}{over}, own τ)"


def audit(scale: Scale) -> tuple[Claim, ...]:
    """Of the paper's code: each asks whether a confound moves the numbers."""
    return (
        *_temperature(scale),
        *_zeros(scale),
        *_split(scale),
        *_sign(scale),
        *_learned(scale),
        *_precision(scale),
        *_norm(scale),
    )


def _zeros(scale: Scale) -> list[Claim]:
    found = []
    share = paper_share(scale)
    for field, words in FIELDS.items():
        clean = paper_retrieval(scale)
        dirty = replace(clean, zeros=share)
        hurts_index = better(clean, dirty, field)
        hurts_exact = better(exactly(clean), exactly(dirty), field)
        ip, dirty_ip = replace(exactly(clean), metric="ip"), replace(exactly(dirty), metric="ip")
        about = f"{share:.0%} zero rows"
        found += [
            Claim(
                name=f"{about} hurt exact L2 search ({words})",
                says="F1: perplexity rises.",
                where="audit F1",
                terms=hurts_exact,
            ),
            Claim(
                name=f"{about} hurt the index ({words})",
                says="F1: perplexity rises.",
                where="audit F1",
                terms=hurts_index,
            ),
            Claim(
                name=f"{about} hurt exact search more than the index ({words})",
                says="F1: so they could explain why approximate search looks better.",
                where="audit F1",
                terms=hurts_exact + less(hurts_index),
            ),
            Claim(
                name=f"{about} hurt L2 more than IP ({words})",
                says="F1: so they could explain why IP looks better.",
                where="audit F1",
                terms=hurts_exact + less(better(ip, dirty_ip, field)),
            ),
        ]
    return found


def _split(scale: Scale) -> list[Claim]:
    arm = paper_retrieval(scale)
    return [
        Claim(
            name="λ tuned on the reported text changes little (τ = 1)",
            where="audit F2",
            says="F2: perplexity is about that with λ from another text.",
            sense="same",
            terms=better(arm, arm, "tau_1_lambda_of_test", "tau_1"),
        )
    ]


def _sign(scale: Scale) -> list[Claim]:
    ffn = replace(paper_retrieval(scale), state="ffn")
    right, committed = replace(ffn, metric="ip"), replace(ffn, score="flipped")
    return [
        Claim(
            name=f"ffn with IP: right sign beats the committed one ({words})",
            where="audit F4",
            says="F4: as committed, the farthest of the L2 neighbours weigh most.",
            terms=better(right, committed, field),
        )
        for field, words in FIELDS.items()
    ] + [
        Claim(
            name=f"ffn with the committed sign is worse than ffn with L2 ({FIELDS[field]})",
            where="audit F4",
            says="F4: the wrong sign alone gives the paper's order.",
            terms=better(ffn, committed, field),
            paper=ratio("tab:knn_baselines", right, ffn),
        )
        for field in ("tau_1", "one_tau")
    ]


def more_are_worse(scale: Scale) -> str:
    """The name of a claim about embeddings of one recipe."""
    return (
        f"{scale.learning.sizes[-1]} embeddings a word are worse than one by the same recipe "
        "(each at its own τ)"
    )


def _learned(scale: Scale) -> list[Claim]:
    most, theirs = (
        scale.learning.sizes[-1],
        (printed_row("tab:softmax_bottleneck", key="att", size=n) for n in (9, 1)),
    )
    many, one = (row.change for row in theirs)
    return [
        Claim(
            name=more_are_worse(scale),
            where="audit F5",
            paper=(1 + many) / (1 + one) - 1,
            says="F5: the paper's loss is there by one recipe too.",
            terms=better(Learned(), Learned(size=most), "own_tau"),
        )
    ]


def _precision(scale: Scale) -> list[Claim]:
    rescored = replace(paper_retrieval(scale), score="exact")
    half, real = replace(rescored, score="half"), exactly(rescored)
    return [
        Claim(
            name=f"fp16 scores change little ({words})",
            says="F6: real scores in fp16 are as good as in fp32.",
            where="audit F6",
            terms=better(half, rescored, field),
            sense="same",
        )
        for field, words in FIELDS.items()
    ] + [
        Claim(
            name=f"FAISS mask beats real mask, scores in fp16 and fp32 as in the paper ({words})",
            where="audit F6",
            says="F6: Table 3's comparison of masks as it was run.",
            terms=better(half, real, field),
        )
        for field, words in FIELDS.items()
    ]


def _norm(scale: Scale) -> list[Claim]:
    att = exactly(paper_retrieval(scale))
    raw, earlier = replace(att, state="att-raw"), replace(att, state="att-earlier")
    ffn, normed = replace(att, state="ffn"), replace(att, state="ffn-normed")
    found = []
    for field, words in FIELDS.items():
        found += [
            Claim(
                name=f"a LayerNorm helps ffn ({words})",
                says="ffn after a LayerNorm beats ffn.",
                where="audit",
                terms=better(normed, ffn, field),
            ),
            Claim(
                name=f"a LayerNorm helps att ({words})",
                says="att beats att before its LayerNorm.",
                where="audit",
                terms=better(att, raw, field),
            ),
            Claim(
                name=f"att beats ffn, both normalised ({words})",
                says="The layer matters beyond its LayerNorm.",
                where="audit",
                terms=better(att, normed, field),
            ),
            Claim(
                name=f"the last att beats the one before ({words})",
                says="The last block's att is better.",
                where="audit",
                terms=better(att, earlier, field),
            ),
        ]
    return found


def _temperature(scale: Scale) -> list[Claim]:
    """F7: how much of each lead at one τ is left when both arms have their own; asked only where
    there is a lead."""
    att, ffn = paper_retrieval(scale), replace(paper_retrieval(scale), state="ffn")
    rescored, real = replace(att, score="exact"), exactly(att)
    leads = {
        "att's lead over ffn": (att, ffn),
        "att's lead over ffn, exact search": (real, exactly(ffn)),
        "the lead of approximate search": (att, real),
        "the lead of the FAISS mask": (rescored, real),
        "the lead of the FAISS score": (att, rescored),
    }
    return [
        Claim(
            name=f"most of {name} is temperature",
            says="F7: the lead at one τ is more than twice that at tuned τ.",
            where="audit F7",
            terms=better(a, b, "one_tau") + 2 * less(better(a, b, "own_tau")),
            margin=0.0,
            given=better(a, b, "one_tau"),
        )
        for name, (a, b) in leads.items()
    ]
