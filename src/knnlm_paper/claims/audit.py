"""Claims of the audit: does what the paper's code did (F1 to F7, docs/reproduce.md) move the
numbers here?"""

from dataclasses import replace

from knnlm_paper.claims.claim import (
    ONE_TAU,
    OWN_TAU,
    TAU_1,
    THREE_TAUS,
    At,
    Claim,
    better,
    less,
)
from knnlm_paper.claims.printed import lead_of, printed_ratio
from knnlm_paper.claims.retrieval import three_taus
from knnlm_paper.conditions import Learned
from knnlm_paper.expected import printed_row
from knnlm_paper.experiments.audit import paper_share
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale


def audit_claims(scale: Scale) -> list[Claim]:
    """One after the other, the best known first."""
    return [
        *_temperature(scale),
        *(claim for at in THREE_TAUS for claim in _zeros(scale, at)),
        *_lambda(scale),
        *_sign(scale),
        *_learning(scale),
        *_precision(scale),
        *_layer_norm(scale),
    ]


def _temperature(scale: Scale) -> list[Claim]:
    """F7: how much of each lead at one τ is left when both settings have their own; asked only
    where there is a lead."""
    att, ffn = paper_retrieval(scale), replace(paper_retrieval(scale), state="ffn")
    rescored, exact = replace(att, score="exact"), exactly(att)
    leads = (
        ("att-lead", "att's lead over ffn", att, ffn),
        ("att-lead-exact", "att's lead over ffn, with exact search,", exact, exactly(ffn)),
        ("index-lead", "the lead of search with an index", att, exact),
        ("index-neighbors-lead", "the lead of the index's neighbors", rescored, exact),
        ("index-scores-lead", "the lead of the index's scores", att, rescored),
    )
    return [
        Claim(
            topic=f"{topic}-is-temperature",
            sentence=f"Most of {name} at one τ for all is gone when each has its own τ.",
            source="audit F7",
            terms=better(a, b, ONE_TAU) + 2 * less(better(a, b, OWN_TAU)),
            margin=0.0,
            given=better(a, b, ONE_TAU),
        )
        for topic, name, a, b in leads
    ]


def _zeros(scale: Scale, at: At) -> list[Claim]:
    """F1: all-zero entries in the datastore."""
    share = paper_share(scale)
    clean = paper_retrieval(scale)
    zeros = replace(clean, zeros=share)
    ip, zeros_ip = replace(exactly(clean), metric="ip"), replace(exactly(zeros), metric="ip")
    hurts_index, hurts_exact = better(clean, zeros, at), better(exactly(clean), exactly(zeros), at)
    sentences = (
        ("zeros-hurt-exact-search", "hurt exact search by L2", hurts_exact),
        ("zeros-hurt-the-index", "hurt search with an index", hurts_index),
        (
            "zeros-hurt-exact-search-more",
            "hurt exact search more than search with an index",
            hurts_exact + less(hurts_index),
        ),
        (
            "zeros-hurt-l2-more",
            "hurt L2 more than inner product",
            hurts_exact + less(better(ip, zeros_ip, at)),
        ),
    )
    return [
        Claim(
            topic=topic,
            at=at,
            sentence=f"{share:.0%} all-zero entries {words}.",
            source="audit F1",
            terms=terms,
        )
        for topic, words, terms in sentences
    ]


def _lambda(scale: Scale) -> list[Claim]:
    """F2: λ tuned on the text that is reported."""
    setting = paper_retrieval(scale)
    return [
        Claim(
            topic="lambda-of-the-test-text-changes-little",
            at=TAU_1,
            sentence="λ tuned on the reported text gives about the same perplexity.",
            source="audit F2",
            sense="same",
            terms=better(setting, setting, "tau_1_lambda_of_test", TAU_1),
        )
    ]


def _sign(scale: Scale) -> list[Claim]:
    """F4: as committed, ffn with IP weighs the farthest of its L2 neighbors most."""
    ffn = replace(paper_retrieval(scale), state="ffn")
    right, committed = replace(ffn, metric="ip"), replace(ffn, score="flipped")
    paper = printed_ratio("tab:knn_baselines", right, ffn)
    return [
        *three_taus(
            "right-sign-beats-the-committed-one",
            "ffn with inner product is better with the right sign than with the committed one.",
            "audit F4",
            right,
            committed,
        ),
        *(
            Claim(
                topic="committed-sign-is-worse-than-l2",
                at=at,
                sentence="ffn with the committed sign is worse than ffn with L2.",
                source="audit F4",
                terms=better(ffn, committed, at),
                paper=paper,
            )
            for at in (TAU_1, ONE_TAU)
        ),
    ]


def _learning(scale: Scale) -> list[Claim]:
    """F5: a way of learning that changed with the number of embeddings."""
    most = scale.learning.sizes[-1]
    one, many = (printed_row("tab:softmax_bottleneck", key="att", size=n) for n in (1, 9))
    return [
        Claim(
            topic="more-embeddings-are-worse",
            at=OWN_TAU,
            sentence=f"{most} embeddings for each vocabulary entry, learned as one is, are worse "
            "than one.",
            source="audit F5",
            paper=lead_of(one, many),
            terms=better(Learned(), Learned(size=most), OWN_TAU),
        )
    ]


def _precision(scale: Scale) -> list[Claim]:
    """F6: exact scores of an index's neighbors in fp16."""
    rescored = replace(paper_retrieval(scale), score="exact")
    half, exact = replace(rescored, score="half"), exactly(rescored)
    same = [
        Claim(
            topic="fp16-scores-change-little",
            at=at,
            sentence="Scores in fp16 are about as good as in fp32.",
            source="audit F6",
            terms=better(half, rescored, at),
            sense="same",
        )
        for at in THREE_TAUS
    ]
    return same + three_taus(
        "index-neighbors-in-fp16-beat-exact-ones",
        "The index's neighbors in fp16 beat the exact ones in fp32, as the paper compared them.",
        "audit F6",
        half,
        exact,
    )


def _layer_norm(scale: Scale) -> list[Claim]:
    """Is it the layer, or its LayerNorm?"""
    att = exactly(paper_retrieval(scale))
    raw, earlier = replace(att, state="att-raw"), replace(att, state="att-earlier")
    ffn, normed = replace(att, state="ffn"), replace(att, state="ffn-normed")
    leads = (
        ("layer-norm-helps-ffn", "ffn after a LayerNorm beats ffn.", normed, ffn),
        ("layer-norm-helps-att", "att beats att before its LayerNorm.", att, raw),
        ("att-beats-normed-ffn", "att beats ffn after a LayerNorm.", att, normed),
        (
            "last-att-beats-the-one-before",
            "The last block's att beats that of the block before.",
            att,
            earlier,
        ),
    )
    return [
        Claim(topic=topic, at=at, sentence=sentence, source="audit", terms=better(a, b, at))
        for at in THREE_TAUS
        for topic, sentence, a, b in leads
    ]
