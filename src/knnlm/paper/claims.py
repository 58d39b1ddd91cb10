"""The claims: what sections 3 and 5 and appendix A of the paper say, what a sceptic doubts, and what the audit asks.

Each is a weighted sum over arms (findings.py). Effects that the paper prints come from expected.yaml. Knows no records.
"""

from dataclasses import replace

from knnlm.paper.expected import printed
from knnlm.paper.findings import Claim, Term, better, gain, less
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.rows import Arm
from knnlm.paper.scales import Scale

FIELDS = {"tau_1": "τ = 1", "tuned": "each at its own τ"}


def claims(scale: Scale) -> tuple[Claim, ...]:
    """Of the paper, in its order."""
    return (*_states(scale), *_models(scale), *_sizes(scale), *_approximation(scale), *_temperature(scale))


def _both(name: str, says: str, where: str, a: Arm, b: Arm, paper: float | None) -> list[Claim]:
    """ "a is better than b" at τ = 1, where the paper measured it, and with each at its own τ."""
    return [
        Claim(
            name=f"{name} ({words})", says=says, where=where, terms=better(a, b, field),
            paper=paper if field == "tau_1" else None,
        )
        for field, words in FIELDS.items()
    ]  # fmt: skip


def _states(scale: Scale) -> list[Claim]:
    att, ffn = paper_arm(scale), replace(paper_arm(scale), state="ffn")
    att_ip, ffn_ip = replace(att, metric="ip"), replace(ffn, metric="ip")
    where, label = "section 3", "tab:knn_baselines"
    found = [
        Claim(name="kNN helps (τ = 1)", says="The kNN-LM's perplexity is lower than the base LM's.", where=where,
              terms=gain(att, "tau_1"), paper=_gain(label, att)),
        Claim(name="kNN helps (each at its own τ)", says="The same at the best τ.", where=where,
              terms=gain(att, "tuned")),
    ]  # fmt: skip
    found += _both("att beats ffn", "Using att is crucial.", where, att, ffn, _ratio(label, ffn, att))
    found += _both("att beats ffn, exact search", "The same with real mask and score.", where, exactly(att),
                   exactly(ffn), None)  # fmt: skip
    found += [
        Claim(name=f"L2 and IP differ little ({words})", says="L2 or IP makes no large difference (att).", where=where,
              terms=better(exactly(att_ip), exactly(att), field), sense="same", margin=0.01)
        for field, words in FIELDS.items()
    ]  # fmt: skip
    found += _both("IP beats L2 on att", "IP is slightly better with att.", where, att_ip, att,
                   _ratio(label, att, att_ip))  # fmt: skip
    found += _both("ffn with IP is the worst", "The LM's own view (ffn, IP) is worse than ffn with L2.", where, ffn,
                   ffn_ip, _ratio(label, ffn_ip, ffn))  # fmt: skip
    return found


def _models(scale: Scale) -> list[Claim]:
    small, large = paper_arm(scale, scale.widths[0]), paper_arm(scale, scale.widths[-1])
    return [
        Claim(name=f"kNN helps {lm}", says="It improves every base LM.", where="appendix A",
              terms=gain(paper_arm(scale, lm), "tuned"))
        for lm in (*scale.widths, *(other.name for other in scale.others))
    ] + [
        Claim(name="larger LMs gain less", says="The larger the LM, the smaller the gain.", where="appendix A",
              terms=gain(small, "tuned") + less(gain(large, "tuned")),
              paper=(18.25 / 14.84) / (10.56 / 9.76) - 1),
    ]  # fmt: skip


def mean_over_draws(scale: Scale, arm: Arm, fraction: float, field: str, weight: float) -> tuple[Term, ...]:
    """A random part of the store, averaged over the parts that were drawn."""
    draws = range(scale.draws if fraction < 1 else 1)
    return tuple(Term(weight / len(draws), replace(arm, fraction=fraction, draw=d), field) for d in draws)


def _sizes(scale: Scale) -> list[Claim]:
    where = "section 4.2, fig:subsample_dstore_only"
    first, last = scale.fractions[0], scale.fractions[-2]
    middle = min(scale.fractions, key=lambda f: abs(f - 0.5))
    found = []
    for field, words in FIELDS.items():
        arm = exactly(paper_arm(scale))

        def at(fraction: float, weight: float, arm: Arm = arm, field: str = field) -> tuple[Term, ...]:
            return mean_over_draws(scale, arm, fraction, field, weight)

        small = replace(arm, fraction=first)
        found += [
            Claim(name=f"{first:.0%} of the store helps ({words})", says="Even a small part of the store helps.",
                  where=where, terms=(*at(first, 1.0), Term(-1.0, small, "base"))),
            Claim(name=f"{last:.0%} to 100% still helps ({words})", says="More entries help up to the end.",
                  where=where, terms=at(1.0, 1.0) + at(last, -1.0)),
        ]  # fmt: skip
        if middle not in (first, 1.0):
            late, early = 1 / (1.0 - middle), 1 / (middle - first)
            found.append(Claim(
                name=f"no diminishing returns ({words})",
                says="Perplexity falls almost linearly: a row of the second half is worth at least half a row of the "
                     "first.",
                where=where,
                terms=at(1.0, late) + at(middle, -late) + at(middle, -early / 2) + at(first, early / 2),
            ))  # fmt: skip
    return found


def _approximation(scale: Scale) -> list[Claim]:
    where, label = "section 5.1, Table 3", "tab:knn_recompute"
    found = []
    for fraction, words in ((1.0, ""), (scale.small, f", {scale.small:.0%} of the store")):
        arm = replace(paper_arm(scale), fraction=fraction)
        real_score, real = replace(arm, score="real"), exactly(arm)
        whole = fraction == 1.0
        found += _both(f"approximate beats exact search{words}", "Search with the index beats exact search.", where,
                       arm, real, _ratio(label, real, arm) if whole else None)  # fmt: skip
        found += _both(f"FAISS mask beats real mask{words}", "Approximate neighbours beat true ones, real scores both.",
                       where, real_score, real, _ratio(label, real, real_score) if whole else None)  # fmt: skip
        found += _both(f"FAISS score beats real score{words}", "Approximate scores beat real ones, same neighbours.",
                       where, arm, real_score, _ratio(label, real_score, arm) if whole else None)  # fmt: skip
    return found


def _temperature(scale: Scale) -> list[Claim]:
    where, arm = "section 5.2", paper_arm(scale)
    return [
        Claim(name="τ = 1 is near the best for FAISS mask and score", says="Tuning τ there gives next to nothing.",
              where=where, terms=better(arm, arm, "tuned", "tau_1"), sense="same"),
        Claim(name="tuning τ matters for real mask and score", says="τ = 1 is not the best for exact search.",
              where=where, terms=better(exactly(arm), exactly(arm), "tuned", "tau_1"), paper=0.037),
    ]  # fmt: skip


def _gain(label: str, arm: Arm) -> float | None:
    row = _printed(label, arm)
    return None if row is None else 1 / (1 + row) - 1


def _ratio(label: str, worse: Arm, best: Arm) -> float | None:
    """ppl(worse)/ppl(best) - 1, as printed."""
    a, b = _printed(label, worse), _printed(label, best)
    return None if a is None or b is None else (1 + a) / (1 + b) - 1


def _printed(label: str, arm: Arm) -> float | None:
    row = printed(label, state=arm.state, metric=arm.metric, mask=arm.mask, score=arm.score)
    return None if row is None else row.change
