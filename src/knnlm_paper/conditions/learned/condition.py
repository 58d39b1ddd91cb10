"""A learned component: its settings, what it costs, and what its measurement is."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from knnlm.experiments.base_lms import MAIN, AboutLM, Checkpoint
from knnlm.experiments.plan import SLOWER, Costs, Step
from knnlm.similarity import Metric
from knnlm.typed_json import Unbounded, json_name
from knnlm_paper.conditions.base import PaperCondition
from knnlm_paper.measurement import BaseNumbers, Documents, MixturePoint
from knnlm_paper.naming import unusual
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace

Component = Literal["head", "mixture-of-softmaxes", "mlp", "clusters"]
Sizing = Literal["equal", "frequency", "loss"]
_TAUS = 30  # over the LM and over the calibrated one


@dataclass(frozen=True, kw_only=True)
class AddedCost:
    """What substitutes add to the LM."""

    parameters: int
    """Numbers; of clusters the centroids and the shares of their tokens, not the tokens' ids."""
    multiplications: int
    """For one token."""
    widths: float
    """Parameters in output embeddings, V×D."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How learning went."""

    rate: float
    """The learning rate that was used."""
    steps: int
    best_step: int
    rates: dict[str, Unbounded]
    """Validation loss of the mixture at each rate that was tried, on the smallest of the family;
    infinite where it diverged."""
    alike: float | None
    """Mean cosine of the embeddings of one token with each other, where tokens have several."""


@dataclass(frozen=True, kw_only=True)
class LearnedPoint(MixturePoint):
    """A learned component at one τ."""

    alone_valid_ppl: Unbounded
    alone_ppl: Unbounded
    oracle: float
    helping: float


@dataclass(frozen=True, kw_only=True)
class LearnedMeasurement:
    """What a learned component does for an LM, and for it calibrated."""

    lm: AboutLM
    base: BaseNumbers
    added: AddedCost
    fit: Fit | None
    """None where nothing was learned after k-means."""
    as_learned: LearnedPoint
    """At the τ it was learned at: 1, as in the paper; clusters learned further began at a tuned
    τ."""
    own_tau: LearnedPoint
    on_calibrated: MixturePoint
    documents: Documents


@dataclass(frozen=True, kw_only=True)
class Learned(PaperCondition[LearnedMeasurement]):
    """A component learned from the entries of a datastore, mixed with the LM instead of neighbors
    (training/initial.py of the library)."""

    measurement_type = LearnedMeasurement
    lm: Checkpoint = MAIN
    state: Literal["att", "ffn", "both"] = "att"
    component: Component = "head"
    size: float = 1
    """n embeddings a token of a head, R softmaxes of a mixture, the inner width of an MLP; of
    clusters, how many for each vocabulary entry, which may be a fraction."""
    metric: Metric = "ip"
    sizing: Sizing = "equal"
    """Which tokens have how many of a head's nV embeddings."""
    own_embedding: bool = True
    """Whether a mixture of softmaxes has an output embedding of its own, or the LM's."""
    fitted: bool = True
    """Whether clusters are learned further after k-means."""
    lam: float | None = json_name("lambda", None)
    """λ of the interpolated loss; None is plain cross-entropy."""
    soft: float = 0.0
    """Share of the loss that neighbors in other documents teach."""
    seed: int = 0

    @property
    def name(self) -> str:
        """The LM and the state, and what is unusual."""
        step = [] if self.lm.step is None else [f"step-{self.lm.step}"]
        more = unusual(self, ("lm", "state"))
        return "_".join([self.lm.name, self.state, "learned", *step, *more])

    @property
    def label(self) -> str:
        """The component in words, without its seed."""
        n = f"{self.size:g}"
        components: dict[Component, str] = {
            "head": "learned head" + (f", {n} embeddings a token" if self.size > 1 else ""),
            "mixture-of-softmaxes": f"mixture of {n} softmaxes"
            + (", own embedding" if self.own_embedding else ""),
            "mlp": f"MLP, inner width {n}",
            "clusters": f"{n}V clusters" + (", learned further" if self.fitted else ""),
        }
        parts = [self.state.replace("both", "att and ffn"), components[self.component]]
        parts += ["L2"] if self.metric == "l2" and self.component != "clusters" else []
        parts += [f"by {self.sizing}"] if self.sizing != "equal" else []
        parts += [f"loss of the mixture at λ = {self.lam:g}"] if self.lam is not None else []
        parts += [f"{self.soft:.0%} taught by neighbors"] if self.soft else []
        words = ", ".join(parts)
        if self.lm.step is not None:
            return f"{self.lm.name} at update {self.lm.step:,}: {words}"
        return words if self.lm.name == "main" else f"{self.lm.name}: {words}"

    @property
    def short_label(self) -> str:
        """The component in few words, as a part of several."""
        named = {"mlp": "an MLP", "clusters": f"clusters of {self.state}"}
        words = named.get(self.component, f"a head on {self.state}")
        return words + (" taught by neighbors" if self.soft else "")

    @property
    def keys(self) -> tuple[str, ...]:
        """The states that it reads."""
        return ("att", "ffn") if self.state == "both" else (self.state,)

    @property
    def has_seed(self) -> bool:
        """It is learned from a start that the seed chooses."""
        return True

    def with_seed(self, seed: int) -> Self:
        """From another start."""
        return replace(self, seed=seed)

    def with_lm(self, lm: str) -> Self:
        """From the datastore of another LM."""
        return replace(self, lm=self.lm._replace(name=lm))

    def pilot(self, scale: Scale) -> "Learned":
        """The one on which the learning rate is chosen, for all of its kind, state and loss: on the
        main LM, at the smallest size."""
        points = scale.learning
        sizes: dict[Component, tuple[int, ...]] = {
            "head": points.sizes,
            "mixture-of-softmaxes": points.softmaxes,
            "mlp": points.mlp_widths,
            "clusters": points.clusters,
        }
        return Learned(
            state=self.state,
            component=self.component,
            size=sizes[self.component][0],
            metric=self.metric,
            lam=self.lam,
            soft=points.soft[0] if self.soft else 0.0,
        )

    def references(self, scale: Scale) -> tuple[Retrieval, ...]:
        """Exact search on att, at whose τ neighbors teach."""
        teacher = (exactly(paper_retrieval(scale, *self.lm)),) if self.soft else ()
        return (*super().references(scale), *teacher)

    def teachers(self, scale: Scale) -> frozenset[Checkpoint]:
        """The LM itself, where its neighbors teach."""
        return super().teachers(scale) | ({self.lm} if self.soft else set())

    def made_with(self, workspace: "PaperWorkspace") -> str:
        """How things are learned at the scale."""
        from knnlm_paper.conditions.learned.learner import learning_fingerprint

        return learning_fingerprint(workspace.scale)

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """Learning it, and reporting."""
        return [*self.learning_steps(costs, scale), self.measuring_step(scale, ())]

    def learning_steps(self, costs: Costs, scale: Scale) -> list[Step]:
        """Once for itself, and once more for every other learning rate that is tried on its
        pilot."""
        steps = [self._learning(costs, scale, 1)]
        if self.fitted:
            pilot, others = self.pilot(scale), len(scale.learning.rates)  # one beyond, as a rule
            label = f"{pilot.name}: {others} other rates"
            steps.append(pilot._learning(costs, scale, others)._replace(what=label))
        return steps

    def _learning(self, costs: Costs, scale: Scale, times: int) -> Step:
        from knnlm.training.clustering import POINTS, ROUNDS

        _, embedding = costs.parameters(self.lm.name)
        width, entries = scale.shape(self.lm.name).width, scale.sizes.train
        mlp = self.component == "mlp"
        inside = 3 * self.size * width + 2 * width**2 if mlp else 0
        numbers = inside + embedding * (1 if mlp else self.size)
        if self.component == "clusters" and not self.fitted:
            count = scale.clusters(self.lm.name, self.size)
            looked, numbers = min(entries, POINTS * count), count * width
            work = SLOWER["kmeans"] * 2 * numbers * (ROUNDS * looked + entries)
        else:
            work = SLOWER["train"] * 4 * numbers * entries * scale.learning.epochs
        work += _TAUS * 2 * numbers * scale.sizes.valid / times
        return Step("learn", self.name, times * work, round(times * 16 * numbers))

    def measure(self, workspace: "PaperWorkspace") -> LearnedMeasurement:
        """At the τ it was learned at and at its own, over the LM and over the calibrated one."""
        from knnlm_paper.conditions.learned.measure import measure_learned

        return measure_learned(self, workspace)
