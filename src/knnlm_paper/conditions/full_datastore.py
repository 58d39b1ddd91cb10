"""All entries of a datastore vote: the equation without its mask."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from knnlm.experiments.base_lms import MAIN, AboutLM, Checkpoint
from knnlm.experiments.plan import Costs, Step
from knnlm.similarity import Metric
from knnlm.typed_json import Unbounded
from knnlm_paper.conditions.base import PaperCondition
from knnlm_paper.measurement import BaseNumbers, Documents, MixturePoint
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace

_PRECISION = 1.1
"""Of τ: steps of a quarter octave, since every further one is a pass over all entries."""
_EXPONENTIAL = 60.0  # slower than matrix products, as in SLOWER of the library's plan
_PASSES, _TAUS_IN_A_PASS = 8, 2  # over the LM and over the calibrated one


@dataclass(frozen=True, kw_only=True)
class FullPoint(MixturePoint):
    """All entries at one τ."""

    alone_ppl: Unbounded
    oracle: float
    helping: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class FullDatastoreMeasurement:
    """What all entries do for an LM, and for it calibrated."""

    lm: AboutLM
    base: BaseNumbers
    entries: int
    own_tau: FullPoint
    on_calibrated: FullPoint
    documents: Documents


@dataclass(frozen=True)
class FullDatastore(PaperCondition[FullDatastoreMeasurement]):
    """All entries of the datastore vote, which is where k ends."""

    measurement_type = FullDatastoreMeasurement
    lm: Checkpoint = MAIN
    state: Literal["att", "ffn"] = "att"
    metric: Metric = "l2"

    @property
    def name(self) -> str:
        """Of the LM, the state and the metric."""
        return f"{self.lm.name}_{self.state}_{self.metric}_{self.kind}"

    @property
    def label(self) -> str:
        """The state and the metric in words."""
        return f"{self.lm.name}: {self.state}, {self.metric.upper()}, all entries"

    def with_lm(self, lm: str) -> Self:
        """All entries of another LM."""
        return replace(self, lm=self.lm._replace(name=lm))

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """All scores of both texts, and their exponentials at every τ that is looked at closely."""
        entries, queries = scale.sizes.train, scale.sizes.valid + scale.sizes.test
        looks = _PASSES * scale.sizes.valid + scale.sizes.test
        products = 2 * scale.shape(self.lm.name).width
        work = entries * looks * (products + _EXPONENTIAL * _TAUS_IN_A_PASS)
        label = f"{self.name}: {queries:,} tokens, {entries:,} entries"
        return [Step(self.kind, label, work, 0), self.measuring_step(scale, ())]

    def measure(self, workspace: "PaperWorkspace") -> FullDatastoreMeasurement:
        """At the τ that is best on validation text, over the LM and over the calibrated one."""
        import numpy as np

        from knnlm.components.full_datastore import FullDatastore as Component
        from knnlm.evaluation.metrics import helping, perplexity
        from knnlm.evaluation.mixing import mix, oracle
        from knnlm.evaluation.tuning import RememberedScores, best_temperature
        from knnlm_paper.measuring.base_lm import base_numbers
        from knnlm_paper.measuring.documents import DocumentSums

        data, base = workspace.plain(*self.lm), workspace.base(*self.lm)
        component = Component(data.store, self.state, self.metric)
        lms = {"own_tau": base.over(False), "on_calibrated": base.over(True)}
        scores = RememberedScores(component.target_scores(data.valid))
        best = {
            name: best_temperature(valid, scores, precision=_PRECISION)
            for name, (valid, _) in lms.items()
        }
        test = component.target_scores(data.test).several([point.tau for point in best.values()])
        sums, points = DocumentSums(data, base), {}
        for (name, point), votes in zip(best.items(), test, strict=True):
            lm = lms[name][1]
            mixed = mix(lm, votes, point.lam)
            sums.add(name, mixed)
            points[name] = FullPoint(
                temperature=point.tau,
                lam=point.lam,
                valid_ppl=point.ppl,
                ppl=perplexity(mixed),
                alone_ppl=perplexity(votes),
                oracle=perplexity(oracle(lm, votes)),
                helping=helping(lm, votes),
                coverage=float(np.isfinite(votes).mean()),
            )
        return FullDatastoreMeasurement(
            lm=workspace.lms.about(*self.lm),
            base=base_numbers(base, data),
            entries=data.store.count,
            **points,
            documents=sums.collected(),
        )
