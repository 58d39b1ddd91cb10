"""Claims of sections 3 and 4.2 and appendix A: which hidden state, which similarity, how large a
datastore, which LM."""

from dataclasses import replace

from knnlm_paper.claims.claim import OWN_TAU, THREE_TAUS, At, Claim, Term, better, gain, less, term
from knnlm_paper.claims.printed import printed_gain, printed_ratio
from knnlm_paper.expected import published
from knnlm_paper.experiments.sizes import compared
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import Scale

_TABLE_1 = "tab:knn_baselines"
_SEARCHES = (("", ""), ("-exact", ", with exact search"))


def state_claims(scale: Scale) -> list[Claim]:
    """Section 3: neighbors help, att beats ffn, L2 or IP."""
    att, ffn = paper_retrieval(scale), replace(paper_retrieval(scale), state="ffn")
    att_ip, ffn_ip = replace(att, metric="ip"), replace(ffn, metric="ip")
    return [
        *_knn_helps(att),
        *three_taus(
            "att-beats-ffn",
            "Searching by att beats searching by ffn.",
            "section 3",
            att,
            ffn,
            printed_ratio(_TABLE_1, ffn, att),
        ),
        *three_taus(
            "att-beats-ffn-exact",
            "Searching by att beats searching by ffn, with exact search.",
            "section 3",
            exactly(att),
            exactly(ffn),
        ),
        *_metrics_differ_little(att, att_ip),
        *three_taus(
            "ip-beats-l2",
            "Inner product beats L2 on att.",
            "section 3",
            att_ip,
            att,
            printed_ratio(_TABLE_1, att, att_ip),
        ),
        *three_taus(
            "l2-beats-ip-on-ffn",
            "ffn with inner product, the LM's own view, is worse than ffn with L2.",
            "section 3",
            ffn,
            ffn_ip,
            printed_ratio(_TABLE_1, ffn_ip, ffn),
        ),
    ]


def three_taus(
    topic: str, sentence: str, source: str, a: Retrieval, b: Retrieval, paper: float | None = None
) -> list[Claim]:
    """That a is better than b, at each of the three temperatures; the paper's effect stands beside
    those that are not tuned."""
    return [
        Claim(
            topic=topic,
            at=at,
            sentence=sentence,
            source=source,
            terms=better(a, b, at),
            paper=None if at is OWN_TAU else paper,
        )
        for at in THREE_TAUS
    ]


def _knn_helps(att: Retrieval) -> list[Claim]:
    settings = (att, exactly(att))
    return [
        Claim(
            topic=f"knn-helps{suffix}",
            at=at,
            sentence=f"Neighbors lower the LM's perplexity{words}.",
            source="section 3",
            terms=gain(setting, at),
            paper=None if at is OWN_TAU else printed_gain(_TABLE_1, setting),
        )
        for setting, (suffix, words) in zip(settings, _SEARCHES, strict=True)
        for at in THREE_TAUS
    ]


def _metrics_differ_little(att: Retrieval, att_ip: Retrieval) -> list[Claim]:
    settings = ((att, att_ip), (exactly(att), exactly(att_ip)))
    return [
        Claim(
            topic=f"l2-and-ip-differ-little{suffix}",
            at=at,
            sentence=f"L2 or inner product makes no large difference on att{words}.",
            source="section 3",
            terms=better(ip, l2, at),
            sense="same",
            margin=0.01,
        )
        for (l2, ip), (suffix, words) in zip(settings, _SEARCHES, strict=True)
        for at in THREE_TAUS
    ]


def model_claims(scale: Scale) -> list[Claim]:
    """Appendix A: every LM gains, larger ones less."""
    small, large = paper_retrieval(scale, scale.widths[0]), paper_retrieval(scale, scale.widths[-1])
    theirs = {row.name: row.change for row in published()["tab:knn_other_models"]}
    least = (1 + theirs["GPT2-large"]) / (1 + theirs["Distilled-GPT2"]) - 1
    others = (*(lm for lm in scale.widths if lm != "main"), *(other.name for other in scale.others))
    return [
        Claim(
            topic=f"knn-helps-{lm}",
            sentence=f"Neighbors lower the perplexity of {lm}.",
            source="appendix A",
            terms=gain(paper_retrieval(scale, lm), OWN_TAU),
        )
        for lm in others
    ] + [
        Claim(
            topic="larger-lms-gain-less",
            at=at,
            sentence="The larger the LM, the less neighbors gain.",
            source="appendix A",
            terms=gain(small, at) + less(gain(large, at)),
            paper=None if at is OWN_TAU else least,
        )
        for at in THREE_TAUS
    ]


def mean_over_draws(
    scale: Scale, retrieval: Retrieval, fraction: float, at: At, weight: float
) -> tuple[Term, ...]:
    """A random part of the datastore, averaged over the parts that were drawn."""
    draws = range(scale.draws if fraction < 1 else 1)
    return tuple(
        term(weight / len(draws), replace(retrieval, fraction=fraction, draw=d), at) for d in draws
    )


def size_claims(scale: Scale) -> list[Claim]:
    """Section 4.2: how perplexity falls with the size of the datastore."""
    settings = (paper_retrieval(scale), exactly(paper_retrieval(scale)))
    return [
        claim
        for setting, (suffix, words) in zip(settings, _SEARCHES, strict=True)
        for at in THREE_TAUS
        for claim in _sizes(scale, setting, suffix, words, at)
    ]


def _sizes(scale: Scale, setting: Retrieval, suffix: str, words: str, at: At) -> list[Claim]:
    first, middle, last = compared(scale)

    def part(fraction: float, weight: float) -> tuple[Term, ...]:
        return mean_over_draws(scale, setting, fraction, at, weight)

    small = replace(setting, fraction=first)
    claims = [
        Claim(
            topic=f"small-datastore-helps{suffix}",
            at=at,
            sentence=f"{first:.0%} of the datastore helps{words}.",
            source="section 4.2",
            terms=(*part(first, 1.0), term(-1.0, small, "base")),
        ),
        Claim(
            topic=f"last-entries-help{suffix}",
            at=at,
            sentence=f"{last:.0%} to 100% of the datastore still helps{words}.",
            source="section 4.2",
            terms=part(1.0, 1.0) + part(last, -1.0),
        ),
    ]
    if middle in (first, 1.0):
        return claims
    # The effect is a difference of slopes, per whole datastore.
    late, early = 1 / (1.0 - middle), 1 / (middle - first)
    slopes = part(1.0, late) + part(middle, -late)
    slopes += part(middle, -early / 2) + part(first, early / 2)
    almost_linear = Claim(
        topic=f"late-entries-worth-half{suffix}",
        at=at,
        sentence="An entry of the datastore's second half is worth at least half of one of its "
        f"first{words}.",
        source="section 4.2",
        margin=0.0,
        terms=slopes,
    )
    return [*claims, almost_linear]
