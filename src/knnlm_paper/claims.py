"""The claims of the paper: what its sections 3 to 5 and appendix A say of retrieval. (Appendix D:
word_findings.py.)

Each is a weighted sum over arms (findings.py). Effects that the paper prints come from
expected.yaml. Knows no records."""

from dataclasses import replace
from typing import NamedTuple

from knnlm_paper.expected import printed, published
from knnlm_paper.experiments.sizes import compared
from knnlm_paper.findings import Claim, Term, better, gain, less, term
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import Scale

FIELDS = {"tau_1": "τ = 1", "one_tau": "one τ for all", "own_tau": "each at its own τ"}
"""τ = 1 as the paper has it; the τ that is best for the paper's own arm, which its τ = 1 was near;
and tuned."""


def claims(scale: Scale) -> tuple[Claim, ...]:
    """Of the paper, in its order."""
    return (
        *_states(scale),
        *_models(scale),
        *_sizes(scale),
        *_approximation(scale),
        *_temperature(scale),
    )


def _each_tau(
    name: str, says: str, where: str, a: Retrieval, b: Retrieval, paper: float | None
) -> list[Claim]:
    """That a is better than b, at each of the three temperatures; the paper's effect stands beside
    those not tuned."""
    return [
        Claim(
            name=f"{name} ({words})",
            says=says,
            where=where,
            terms=better(a, b, field),
            paper=paper if field != "own_tau" else None,
        )
        for field, words in FIELDS.items()
    ]


def _states(scale: Scale) -> list[Claim]:
    att, ffn = paper_retrieval(scale), replace(paper_retrieval(scale), state="ffn")
    att_ip, ffn_ip = replace(att, metric="ip"), replace(ffn, metric="ip")
    where, label = "section 3", "tab:knn_baselines"
    found = [
        Claim(
            name=f"kNN helps{search} ({words})",
            says="The kNN-LM's perplexity is lower than the base LM's.",
            where=where,
            terms=gain(arm, field),
            paper=_gain(label, arm) if field != "own_tau" else None,
        )
        for arm, search in ((att, ""), (exactly(att), ", exact search"))
        for field, words in FIELDS.items()
    ]
    found += _each_tau(
        "att beats ffn", "Using att is crucial.", where, att, ffn, ratio(label, ffn, att)
    )
    found += _each_tau(
        "att beats ffn, exact search",
        "The same with real mask and score.",
        where,
        exactly(att),
        exactly(ffn),
        None,
    )
    found += [
        Claim(
            name=f"L2 and IP differ little{search} ({words})",
            says="L2 or IP makes no large difference (att).",
            where=where,
            terms=better(b, a, field),
            sense="same",
            margin=0.01,
        )
        for a, b, search in ((att, att_ip, ""), (exactly(att), exactly(att_ip), ", exact search"))
        for field, words in FIELDS.items()
    ]
    found += _each_tau(
        "IP beats L2 on att",
        "IP is slightly better with att.",
        where,
        att_ip,
        att,
        ratio(label, att, att_ip),
    )
    found += _each_tau(
        "ffn with IP is worse than ffn with L2",
        "The LM's own view (ffn, IP) is the worst.",
        where,
        ffn,
        ffn_ip,
        ratio(label, ffn_ip, ffn),
    )
    return found


def _models(scale: Scale) -> list[Claim]:
    small, large = paper_retrieval(scale, scale.widths[0]), paper_retrieval(scale, scale.widths[-1])
    theirs = {row.name: row.change for row in published()["tab:knn_other_models"]}
    least = (1 + theirs["GPT2-large"]) / (1 + theirs["Distilled-GPT2"]) - 1
    others = (*(lm for lm in scale.widths if lm != "main"), *(other.name for other in scale.others))
    return [
        Claim(
            name=f"kNN helps {lm}",
            says="It improves every base LM.",
            where="appendix A",
            terms=gain(paper_retrieval(scale, lm), "own_tau"),
        )
        for lm in others
    ] + [
        Claim(
            name=f"larger LMs gain less ({words})",
            says="The larger the LM, the smaller the gain.",
            where="appendix A",
            terms=gain(small, field) + less(gain(large, field)),
            paper=least if field != "own_tau" else None,
        )
        for field, words in FIELDS.items()
    ]


def mean_over_draws(
    scale: Scale, arm: Retrieval, fraction: float, field: str, weight: float
) -> tuple[Term, ...]:
    """A random part of the store, averaged over the parts that were drawn."""
    draws = range(scale.draws if fraction < 1 else 1)
    return tuple(
        term(weight / len(draws), replace(arm, fraction=fraction, draw=d), field) for d in draws
    )


def _sizes(scale: Scale) -> list[Claim]:
    where = "section 4.2"
    first, middle, last = compared(scale)
    found = []
    for arm, search in (
        (paper_retrieval(scale), ""),
        (exactly(paper_retrieval(scale)), ", exact search"),
    ):
        for field, words in FIELDS.items():

            def at(
                fraction: float, weight: float, arm: Retrieval = arm, field: str = field
            ) -> tuple[Term, ...]:
                return mean_over_draws(scale, arm, fraction, field, weight)

            small = replace(arm, fraction=first)
            found += [
                Claim(
                    name=f"{first:.0%} of the store helps{search} ({words})",
                    where=where,
                    says="Even a small part of the store helps.",
                    terms=(*at(first, 1.0), term(-1.0, small, "base")),
                ),
                Claim(
                    name=f"{last:.0%} to 100% still helps{search} ({words})",
                    where=where,
                    says="More entries help up to the end.",
                    terms=at(1.0, 1.0) + at(last, -1.0),
                ),
            ]
            if middle not in (first, 1.0):
                late, early = 1 / (1.0 - middle), 1 / (middle - first)
                found.append(
                    Claim(
                        name=f"a late row is worth half an early one{search} ({words})",
                        says="Perplexity falls almost linearly with rows: those of the second half "
                        "are worth at least half of those of the first. (The effect is a "
                        "difference of slopes, per whole store.)",
                        where=where,
                        margin=0.0,
                        terms=at(1.0, late)
                        + at(middle, -late)
                        + at(middle, -early / 2)
                        + at(first, early / 2),
                    )
                )
    return found


class _Settings(NamedTuple):
    """The three settings of Table 3."""

    approximate: Retrieval
    rescored: Retrieval
    real: Retrieval


def _settings(scale: Scale) -> _Settings:
    arm = paper_retrieval(scale)
    return _Settings(arm, replace(arm, score="exact"), exactly(arm))


def _approximation(scale: Scale) -> list[Claim]:
    where, label = "section 5.1", "tab:knn_recompute"
    index, rescored, real = _settings(scale)
    found = _each_tau(
        "approximate beats exact search",
        "Search with the index beats exact search.",
        where,
        index,
        real,
        ratio(label, real, index),
    )
    found += _each_tau(
        "FAISS mask beats real mask",
        "Approximate neighbours beat true ones, real scores both.",
        where,
        rescored,
        real,
        ratio(label, real, rescored),
    )
    whole, part = ratio(label, rescored, index), ratio(label, real, rescored)
    assert whole is not None
    assert part is not None
    for field in ("tau_1", "one_tau"):
        score, mask = better(index, rescored, field), better(rescored, real, field)
        found += [
            Claim(
                name=f"FAISS score beats real score ({FIELDS[field]})",
                where=where,
                terms=score,
                paper=whole,
                says="Approximate scores beat real ones, same neighbours.",
            ),
            Claim(
                name=f"the score matters more than the mask ({FIELDS[field]})",
                where=where,
                says="The gap of the scores is the larger one.",
                terms=score + less(mask),
                paper=(1 + whole) / (1 + part) - 1,
            ),
        ]
    found += [
        Claim(
            name="real score beats FAISS score (each at its own τ)",
            where="section 5.2",
            says="On the whole store accurate distances are better once τ is tuned.",
            terms=better(rescored, index, "own_tau"),
        ),
        Claim(
            name="the mask matters more than the score (each at its own τ)",
            where="section 5.2",
            says="Approximate neighbours, not approximate scores, are what helps.",
            terms=better(rescored, real, "own_tau") + less(better(index, rescored, "own_tau")),
        ),
    ]
    return [*found, *_small_store(scale)]


def _small_store(scale: Scale) -> list[Claim]:
    """The same on a small part of the store, averaged over its draws."""
    where, words = "section 5.2", f"{scale.small:.0%} of the store"
    index, rescored, real = _settings(scale)

    def lead(a: Retrieval, b: Retrieval, field: str) -> tuple[Term, ...]:
        return mean_over_draws(scale, a, scale.small, field, 1.0) + mean_over_draws(
            scale, b, scale.small, field, -1.0
        )

    found = []
    for field, at in FIELDS.items():
        found += [
            Claim(
                name=f"approximate beats exact search, {words} ({at})",
                where=where,
                terms=lead(index, real, field),
                says="Also on a small store.",
            ),
            Claim(
                name=f"FAISS mask beats real mask, {words} ({at})",
                where=where,
                terms=lead(rescored, real, field),
                says="Also on a small store.",
            ),
            Claim(
                name=f"FAISS score beats real score, {words} ({at})",
                where=where,
                terms=lead(index, rescored, field),
                says="On a small store approximate scores are better.",
            ),
        ]
    found.append(
        Claim(
            name="a small store gains more from approximation (each at its own τ)",
            where=where,
            says="It needs the regularisation more.",
            terms=lead(index, real, "own_tau") + less(better(index, real, "own_tau")),
        )
    )
    return found


def _temperature(scale: Scale) -> list[Claim]:
    where = "section 5.2"
    index, rescored, real = _settings(scale)
    small = replace(index, fraction=scale.small)
    return [
        Claim(
            name="τ = 1 is near the best for FAISS mask and score",
            says="Tuning τ there gives next to nothing.",
            where=where,
            terms=better(index, index, "own_tau", "tau_1"),
            sense="same",
        ),
        Claim(
            name=f"τ = 1 is near the best for FAISS mask and score, {scale.small:.0%} of the store",
            where=where,
            says="So too on a small store.",
            terms=better(small, small, "own_tau", "tau_1"),
            sense="same",
        ),
        Claim(
            name="tuning τ matters for FAISS mask, real score",
            says="τ = 1 is not the best for real scores.",
            where=where,
            terms=better(rescored, rescored, "own_tau", "tau_1"),
        ),
        Claim(
            name="tuning τ matters for real mask, real score",
            says="τ = 1 is not the best for exact search (the paper: as much as 3.7 %).",
            where=where,
            terms=better(real, real, "own_tau", "tau_1"),
            paper=next(row.cells["gap"] for row in published()["text"] if "gap" in row.cells),
        ),
        *(
            Claim(
                name=f"its own τ beats the one τ for all ({words})",
                where=where,
                says="What is best for the paper's arm is not the best for another.",
                terms=better(arm, arm, "own_tau", "one_tau"),
            )
            for words, arm in (
                ("att, exact search", real),
                ("ffn, exact search", replace(real, state="ffn")),
            )
        ),
    ]


def _gain(label: str, arm: Retrieval) -> float | None:
    row = _printed(label, arm)
    return None if row is None else 1 / (1 + row) - 1


def ratio(label: str, worse: Retrieval, best: Retrieval) -> float | None:
    """ppl(worse)/ppl(best) - 1, as printed."""
    a, b = _printed(label, worse), _printed(label, best)
    return None if a is None or b is None else (1 + a) / (1 + b) - 1


def _printed(label: str, arm: Retrieval) -> float | None:
    row = printed(label, state=arm.state, metric=arm.metric, search=arm.search, score=arm.score)
    return None if row is None else row.change
