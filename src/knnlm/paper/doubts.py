"""Claims that are not the paper's: what a sceptic doubts, and what the audit of its code asks. Knows no records."""

from dataclasses import replace

from knnlm.paper.claims import FIELDS
from knnlm.paper.findings import Claim, better, gain, less
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.scales import Scale


def doubts(scale: Scale) -> tuple[Claim, ...]:
    """A sceptic's."""
    arm = paper_arm(scale)
    found = [
        Claim(name="kNN beats the calibrated LM", says="More is gained than a temperature and a unigram share would "
              "gain.", where="sceptic", terms=gain(exactly(arm), "tuned", "calibrated")),
        Claim(name="kNN helps the calibrated LM", says="Mixed with the calibrated LM it still helps.", where="sceptic",
              terms=gain(exactly(arm), "tuned_on_calibrated", "calibrated")),
    ]  # fmt: skip
    for width in scale.components:
        found.append(Claim(
            name=f"{width} principal components beat all", says="PCA of the keys lowers perplexity (He et al., 2021).",
            where="section 5.2", terms=better(replace(exactly(arm), width=width), exactly(arm), "tuned"),
            paper=16.46 / 16.25 - 1 if width == scale.components[0] else None,
        ))  # fmt: skip
    for factory, nprobe in scale.factories:
        other = replace(arm, factory=factory, nprobe=nprobe)
        found.append(Claim(
            name=f"{factory} with {nprobe} probed beats exact search", says="This approximation helps.",
            where="section 5.2", terms=better(other, exactly(arm), "tuned"),
        ))  # fmt: skip
    return tuple(found)


def audit(scale: Scale) -> tuple[Claim, ...]:
    """Of the paper's code: each asks whether a confound moves the numbers."""
    return (*_zeros(scale), *_split(scale), *_sign(scale), *_precision(scale), *_norm(scale))


def _zeros(scale: Scale) -> list[Claim]:
    found = []
    share = max((z for z in scale.zeros if z < 0.4), default=scale.zeros[0])
    for field, words in FIELDS.items():
        clean = paper_arm(scale)
        dirty = replace(clean, zeros=share)
        hurts_index = better(clean, dirty, field)
        hurts_exact = better(exactly(clean), exactly(dirty), field)
        ip, dirty_ip = replace(exactly(clean), metric="ip"), replace(exactly(dirty), metric="ip")
        about = f"{share:.0%} zero rows"
        found += [
            Claim(name=f"{about} hurt exact L2 search ({words})", says="F1: perplexity rises.", where="audit F1",
                  terms=hurts_exact),
            Claim(name=f"{about} hurt the index ({words})", says="F1: perplexity rises.", where="audit F1",
                  terms=hurts_index),
            Claim(name=f"{about} hurt exact search more than the index ({words})",
                  says="F1: so they could explain why approximate search looks better.", where="audit F1",
                  terms=hurts_exact + less(hurts_index)),
            Claim(name=f"{about} hurt L2 more than IP ({words})",
                  says="F1: so they could explain why IP looks better.", where="audit F1",
                  terms=hurts_exact + less(better(ip, dirty_ip, field))),
        ]  # fmt: skip
    return found


def _split(scale: Scale) -> list[Claim]:
    arm = paper_arm(scale)
    return [
        Claim(name="λ tuned on the reported text flatters (τ = 1)", says="F2: perplexity is lower than with λ from "
              "another text.", where="audit F2", terms=better(arm, arm, "tau_1_lambda_of_test", "tau_1"))
    ]  # fmt: skip


def _sign(scale: Scale) -> list[Claim]:
    ffn = replace(paper_arm(scale), state="ffn")
    right, committed = replace(ffn, metric="ip"), replace(ffn, score="flipped")
    return [
        Claim(name=f"ffn with IP: right sign beats the committed one ({words})", where="audit F4",
              says="F4: as committed, the farthest of the L2 neighbours weigh most.",
              terms=better(right, committed, field))
        for field, words in FIELDS.items()
    ] + [
        Claim(name="ffn with the committed sign is worse than ffn with L2 (τ = 1)", where="audit F4",
              says="F4: the wrong sign alone gives the paper's order.", terms=better(ffn, committed, "tau_1"),
              paper=21.101 / 20.734 - 1),
    ]  # fmt: skip


def _precision(scale: Scale) -> list[Claim]:
    real = replace(paper_arm(scale), score="real")
    return [
        Claim(name=f"fp16 scores hurt ({words})", says="F6: real scores in fp32 beat the same in fp16.",
              where="audit F6", terms=better(real, replace(real, score="half"), field))
        for field, words in FIELDS.items()
    ]  # fmt: skip


def _norm(scale: Scale) -> list[Claim]:
    att = exactly(paper_arm(scale))
    raw, earlier = replace(att, state="att-raw"), replace(att, state="att-earlier")
    ffn, normed = replace(att, state="ffn"), replace(att, state="ffn-normed")
    found = []
    for field, words in FIELDS.items():
        found += [
            Claim(name=f"a LayerNorm helps ffn ({words})", says="ffn after a LayerNorm beats ffn.", where="audit",
                  terms=better(normed, ffn, field)),
            Claim(name=f"a LayerNorm helps att ({words})", says="att beats att before its LayerNorm.", where="audit",
                  terms=better(att, raw, field)),
            Claim(name=f"att beats ffn, both normalised ({words})", says="The layer matters beyond its LayerNorm.",
                  where="audit", terms=better(att, normed, field)),
            Claim(name=f"the last att beats the one before ({words})", says="The last block's att is better.",
                  where="audit", terms=better(att, earlier, field)),
        ]  # fmt: skip
    att_index, ffn_index = paper_arm(scale), replace(paper_arm(scale), state="ffn")
    found.append(
        Claim(name="most of att's lead over ffn is temperature",
              says="F7: the lead at τ = 1 is more than twice the lead at tuned τ.", where="audit F7",
              terms=better(att_index, ffn_index, "tau_1") + 2 * less(better(att_index, ffn_index, "tuned")))
    )  # fmt: skip
    return found
