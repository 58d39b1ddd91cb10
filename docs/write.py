"""Writes README.md and docs/why.md from docs/templates: a person wrote the sentences, records give
the numbers. `make docs` runs it, a test checks it.

A template calls functions of `Numbers`. `holds(ID)` and `does_not_hold(ID)` give a change and fail
where the verdict is another one; `expect`, `behind` and others give nothing and fail where a
sentence beside them would be untrue. So no sentence outlives its finding.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.claims import Change
from knnlm_paper.claims.claim import CALIBRATED
from knnlm_paper.claims.shares import share_of_gain
from knnlm_paper.conditions import KNN
from knnlm_paper.expected import PAPER_TOKENS_PER_WORD, Published, published
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.report.changes import percent, with_interval
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.messages import message
from knnlm_paper.report.regimes import Regime
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs.tree import tree  # noqa: E402 - found from the folder above

TEMPLATES = ROOT / "docs" / "templates"
WRITTEN = {"README.md": ROOT / "README.md", "why.md": ROOT / "docs" / "why.md"}


class Numbers:
    """What a template may say of the laptop results."""

    def __init__(self, results: Results) -> None:
        self.evidence = Evidence(results)
        self.results, self.findings = results, self.evidence.findings
        self.knn = KNN(exactly(paper_retrieval(results.scale)))

    @property
    def index(self) -> Any:
        """The measurement of the paper's own retrieval, by an index."""
        return self.results.measurement(KNN(paper_retrieval(self.results.scale)))

    @property
    def regimes(self) -> list[Regime]:
        """Every LM and stage that was measured."""
        return self.evidence.regimes

    def expect(self, verdict: str, *claim_ids: str) -> str:
        """Fail where the verdict of a claim is another one."""
        for claim_id in claim_ids:
            if (found := self.findings[claim_id].verdict) != verdict:
                raise ValueError(f"the text relies on '{claim_id}': {verdict}, but it is: {found}")
        return ""

    def check(self, name: str, *arguments: str) -> str:
        """Fail where one of the checks of `Evidence` fails."""
        if not getattr(self.evidence, name)(*arguments):
            of = f" of {' and '.join(arguments)}" if arguments else ""
            raise ValueError(f"the text relies on {name}{of}, which is not so")
        return ""

    def per_token(self, claim_id: str) -> str:
        """A change per token with its interval."""
        return with_interval(self.findings[claim_id].per_token)

    def per_word(self, claim_id: str) -> str:
        """A change per word with its interval."""
        return with_interval(self.findings[claim_id].per_word)

    def holds(self, claim_id: str) -> str:
        """A change per token of a claim that holds."""
        return self.expect("holds", claim_id) + self.per_token(claim_id)

    def does_not_hold(self, claim_id: str) -> str:
        """A change per token of a claim that does not hold."""
        return self.expect("does not hold", claim_id) + self.per_token(claim_id)

    def paper(self, claim_id: str) -> str:
        """The paper's own change, converted from words to its tokens."""
        effect = self.findings[claim_id].claim.paper
        assert effect is not None, claim_id
        return percent((1 + effect) ** (-1 / PAPER_TOKENS_PER_WORD) - 1)

    def regime(self, lm: str, step: int | None) -> Regime:
        """One LM at one stage."""
        return next(r for r in self.regimes if r.lm == Checkpoint(lm, step))

    def calibration(self, lm: str, step: int | None) -> str:
        """What calibration changes in one LM, per token."""
        return percent(self.regime(lm, step).calibration)

    def neighbors(self, lm: str, step: int | None, calibrated: bool = False) -> str:
        """What neighbors change in one LM, per token."""
        regime = self.regime(lm, step)
        finding = regime.over_calibrated if calibrated else regime.neighbors
        return percent(finding.per_token.value)

    def more_than_calibration(self, lm: str, step: int | None) -> str:
        """Fail unless neighbors surely change one LM more than calibration does."""
        regime = self.regime(lm, step)
        if regime.neighbors.per_token.high >= regime.calibration:
            raise ValueError(f"the text relies on neighbors gaining most in {regime.label}")
        return ""

    def too_sure(self) -> str:
        """Fail unless calibration lowers the main LM's confidence."""
        if self.results.measurement(self.knn).base.calibrated_temperature <= 1:
            raise ValueError("the text relies on an LM that is too sure of itself")
        return ""

    def only_ahead(self, effect: str, lm: str, step: int | None) -> str:
        """Fail unless an effect is surely below zero in this LM alone."""
        ahead = self.evidence.lms_ahead(effect)
        if ahead != [Checkpoint(lm, step)]:
            raise ValueError(f"the text relies on {lm} at {step} alone being ahead, not {ahead}")
        return ""

    def share(self, state: Any) -> str:
        """The share of the neighbors' gain over the calibrated LM that clusters have."""
        component = clusters_of(state, self.results.scale.learning.clusters[0])
        at = CALIBRATED
        share = share_of_gain(
            self.results, self.results.seeds(component), self.knn, at.point, at.base
        )
        value, low, high = (f"{number:.2f}" for number in share)
        return f"{value} times ({low} to {high})"

    def figure_title(self, figure: str) -> str:
        """What a figure says; fails where results do not say so."""
        if (said := message(self.evidence, figure)) is None:
            raise ValueError(f"the figure {figure} has no message: results do not say so")
        return said

    def context(self) -> dict[str, Any]:
        """What a template can name."""
        scale = self.results.scale
        methods: list[Callable[..., str]] = [
            self.expect,
            self.per_word,
            self.per_token,
            self.holds,
            self.does_not_hold,
            self.paper,
            self.calibration,
            self.neighbors,
            self.check,
            self.more_than_calibration,
            self.too_sure,
            self.only_ahead,
            self.figure_title,
            self.share,
        ]
        return {
            **{method.__name__: method for method in methods},
            "scale": scale,
            "paper_parameters": _millions(published()["tab:knn_other_models"][0]),
            "main": self.results.measurement(self.knn),
            "regimes": self.regimes,
            "recall": f"{100 * self.index.recall:.0f} %",
            "adapted": adapted(),
            "clusters_lose_half": clusters_lose_half,
            "other_indexes": len(scale.factories),
            "clusters": scale.clusters("main", scale.learning.clusters[0]),
            "ppl": lambda value: f"{value:.1f}",
            "decimal": lambda value: f"{value:.1f}",
            "thousands": lambda value: f"{value:,}",
            "tree": tree(),
            "demo_table": demo_table(),
            "disk": disk,
            "millions": lambda value: f"{value / 1e6:.1f}",
        }


def _millions(row: Published) -> str:
    """The size of one of the paper's LMs in words."""
    return str(row.fields["parameters"]).replace("M", " million")


def demo_table() -> str:
    """The four numbers of the best condition of the committed demo."""
    best = json.loads((ROOT / "docs" / "results" / "demo.json").read_text())["best"]
    lines = [
        ("LM", best["base_ppl"], ""),
        ("LM with neighbors", best["interp_ppl"], _ratio(best, "")),
        ("calibrated LM", best["calibrated_ppl"], ""),
        (
            "calibrated LM with neighbors",
            best["calibrated_interp_ppl"],
            _ratio(best, "calibrated_"),
        ),
    ]
    rows = [f"| {name} | {value:.1f} | {change} |" for name, value, change in lines]
    return "\n".join(["| | perplexity | change (95 % interval) |", "|---|---:|---|", *rows])


def _ratio(best: dict[str, Any], prefix: str) -> str:
    low, high = (end - 1 for end in best[f"{prefix}ratio_ci95"])
    return with_interval(Change(best[f"{prefix}ratio"] - 1, low, high))


def adapted() -> dict[str, str]:
    """What neighbors change in SmolLM2 on Django's guide."""
    run = json.loads((ROOT / "docs" / "results" / "adapt.json").read_text())["SmolLM2, Django"]
    return {
        "before": f"{run['base_ppl']:.2f}",
        "after": f"{run['interp_ppl']:.2f}",
        "over_calibrated": _ratio(run, "calibrated_"),
    }


def clusters_lose_half(lm: str) -> str:
    """Fail unless clusters have less than half of what a search gains in log-likelihood."""
    record = json.loads((ROOT / "docs" / "results" / "clusters.json").read_text())[lm]
    gains = [math.log(each["ratio"]) for each in (record["search"], *record["clusters"])]
    shares = [gain / gains[0] for gain in gains[1:]]
    if max(shares) >= 0.5:
        raise ValueError(f"the text relies on clusters having less than half of the gain of {lm}")
    return ""


def disk(width: int) -> str:
    """Disk for a million entries: att and ffn in fp16, and three numbers of four bytes."""
    return f"{(2 * 2 * width + 3 * 4) / 1000:.1f} GB"


def written(name: str, numbers: Numbers | None = None) -> str:
    """The text of one document."""
    numbers = numbers or Numbers(Results.open(ROOT / "docs" / "results" / "laptop"))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(name).render(numbers.context())


if __name__ == "__main__":
    for template, file in WRITTEN.items():
        file.write_text(written(template), encoding="utf-8")
