"""Learns components from the entries of a datastore, each once.

The learning rate is chosen on validation once for each kind, state and loss, on the main LM at the
smallest size, and then used for every size, seed and LM: so a curve over sizes is of one recipe,
which the paper's is not (F5). Where the best of the rates is the lowest or the highest, the next
one beyond is tried. Knows nothing of λ or of measurements."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.components import LearnedComponent
from knnlm.components.clusters import Clusters
from knnlm.errors import KnnlmError
from knnlm.evaluation.calibration import TemperedLM
from knnlm.evaluation.tuning import best_temperature
from knnlm.files import fingerprint
from knnlm.hidden_states.output_head import output_embedding
from knnlm.training import learn as learning
from knnlm.training.clustering import POINTS, ROUNDS, cluster
from knnlm.training.fit import FitResult
from knnlm.training.initial import (
    NOISE,
    LearnableModule,
    embeddings_by_weight,
    initial_clusters,
    initial_module,
)
from knnlm.training.kinds import ComponentSpec
from knnlm.training.learn import BATCH, DEFAULT_FIT
from knnlm.training.loop import Diverged
from knnlm.training.objectives import InterpolatedLoss, Objective, SoftTargetLoss
from knnlm.training.soft_targets import KEPT
from knnlm_paper.conditions.learned.condition import Learned
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace

_FURTHER, _STEP = 2, 3.0


class LearnedPart(NamedTuple):
    """What was learned for a condition: the component, how learning went (None: nothing was), at
    which rate, and how many numbers it adds to the LM."""

    component: LearnedComponent
    fitted: FitResult | None
    rate: float | None
    parameters: int


class Learner:
    """Learns in a workspace's folder."""

    def __init__(self, workspace: "PaperWorkspace") -> None:
        self.workspace = workspace
        self._pilots: dict[Learned, dict[float, FitResult]] = {}
        self._lm_logs: dict[tuple[str, int | None], NDArray[np.float64]] = {}

    def learned(self, condition: Learned) -> LearnedPart:
        """The component of a condition."""
        if not condition.fitted:
            component = self._clusters(condition)
            return LearnedPart(component, None, None, component.multiplications)
        tried = self.pilots(condition)
        rate = min(tried, key=lambda rate: tried[rate].valid_loss)
        fit = self._fit(condition, rate)
        parameters = _parameters(condition, fit.component)
        return LearnedPart(fit.component, fit.fit, rate, parameters)

    def pilots(self, condition: Learned) -> dict[float, FitResult]:
        """What came of every rate that was tried for the family of a condition, in order."""
        scale = self.workspace.scale
        first, rates = condition.pilot(scale), scale.learning.rates
        if first not in self._pilots:
            tried = {rate: self._try(first, rate) for rate in rates}
            while len(tried) < len(rates) + _FURTHER:
                ordered = sorted(tried)
                best = min(ordered, key=lambda rate: tried[rate].valid_loss)
                if len(ordered) == 1 or best not in (ordered[0], ordered[-1]):
                    break
                rate = float(f"{best * _STEP if best == ordered[-1] else best / _STEP:.1g}")
                tried[rate] = self._try(first, rate)
            self._pilots[first] = {rate: tried[rate] for rate in sorted(tried)}
        return self._pilots[first]

    def logprobs(
        self, condition: Learned, component: LearnedComponent, split: str
    ) -> NDArray[np.float64]:
        """log p of a text's tokens."""
        return component.target_logprobs(self.workspace.plain(*condition.lm).queries(split))

    def _try(self, condition: Learned, rate: float) -> FitResult:
        try:
            return self._fit(condition, rate).fit
        except Diverged:
            return FitResult(0, 0, math.inf, 0.0)

    def _fit(self, condition: Learned, rate: float) -> learning.Learned:
        data = self.workspace.plain(*condition.lm)
        module, about = self._begin(condition)
        aim, of_aim = self._aim(condition)
        how = replace(DEFAULT_FIT, lr=rate, epochs=self.workspace.scale.learning.epochs)
        return learning.learn(
            module,
            data.store,
            data.valid,
            self._folder(condition) / f"lr-{rate:g}",
            how,
            seed=condition.seed,
            objective=aim,
            about={**about, **of_aim},
        )

    def _begin(self, condition: Learned) -> tuple[LearnableModule, dict[str, Any]]:
        """The module of a condition, and what it began as."""
        if condition.component == "clusters":
            start = self._clusters(condition)
            valid = self.workspace.plain(*condition.lm).valid
            lm = valid.lm_logprob.astype(np.float64)
            tau = best_temperature(lm, start.target_scores(valid)).tau
            tuned = start.at_temperature(tau)
            return initial_clusters(tuned), {"condition": condition.settings, "tau": tau}
        w_sm = output_embedding(self.workspace.lms.model(*condition.lm).model).weight
        spec = ComponentSpec(
            kind=condition.component,
            keys=condition.keys,
            size=int(condition.size),
            metric=condition.metric,
            own_embedding=condition.own_embedding,
        )
        module = initial_module(spec, w_sm, self._counts(condition), condition.seed)
        return module, {"condition": condition.settings}

    def _clusters(self, condition: Learned) -> Clusters:
        store = self.workspace.plain(*condition.lm).store
        file = self._folder(replace(condition, fitted=False)) / "clusters.safetensors"
        count = max(1, min(int(condition.size * store.vocab_size), store.count))
        return cluster(store, condition.state, count, condition.metric, file, seed=condition.seed)

    def _counts(self, condition: Learned) -> NDArray[np.int64] | None:
        """Embeddings for each vocabulary entry, where they are not the same for all."""
        if condition.sizing == "equal":
            return None
        store = self.workspace.plain(*condition.lm).store
        weight = None if condition.sizing == "frequency" else -self._lm_logprobs(condition)
        counts = np.bincount(store.targets, weights=weight, minlength=store.vocab_size)
        if condition.sizing == "loss":
            counts = counts + 1  # as in the paper's code: a token that costs nothing has weight one
        return embeddings_by_weight(counts, int(condition.size * store.vocab_size))

    def _aim(self, condition: Learned) -> tuple[Objective | None, dict[str, Any]]:
        if condition.lam is not None and condition.soft:
            raise KnnlmError(
                "a component learns from the mixture or from neighbors: choose one of lam and soft"
            )
        if condition.lam is not None:
            return InterpolatedLoss(condition.lam, self._lm_logprobs(condition)), {}
        if condition.soft:
            tau = self.workspace.teacher(*condition.lm).tau
            table = self.workspace.soft_targets(*condition.lm, tau)
            tokens, shares = table.columns["words"], table.columns["shares"]
            loss = SoftTargetLoss(condition.soft, tokens, shares)
            return loss, {"teacher": table.manifest["meta"]}
        return None, {}

    def _lm_logprobs(self, condition: Learned) -> NDArray[np.float64]:
        """log p_LM of the stored targets, from the stored states: the LM's body is not run
        again."""
        if condition.lm not in self._lm_logs:
            store = self.workspace.plain(*condition.lm).store
            model = self.workspace.lms.model(*condition.lm).model
            lm = TemperedLM(model, store.key("ffn"), store.targets)
            self._lm_logs[condition.lm] = lm.logprobs(1.0)
        return self._lm_logs[condition.lm]

    def _folder(self, condition: Learned) -> Path:
        how = learning_fingerprint(self.workspace.scale)
        return self.workspace.folder / "learned" / how / condition.name


def learning_fingerprint(scale: Scale) -> str:
    """A fingerprint of how things are learned at a scale: what is learned otherwise is not taken
    for it."""
    points = scale.learning
    return fingerprint(
        {
            "rates": points.rates,
            "epochs": points.epochs,
            "looks": DEFAULT_FIT.validations_per_epoch,
            "patience": DEFAULT_FIT.patience,
            "batch": BATCH,
            "noise": NOISE,
            "rounds": ROUNDS,
            "points": POINTS,
            "kept": KEPT,
            "k": scale.k,
            "further": (_FURTHER, _STEP),
            "first": [
                sizes[0]
                for sizes in (points.sizes, points.softmaxes, points.mlp_widths, points.clusters)
            ],
        }
    )[:16]


def _parameters(condition: Learned, component: LearnedComponent) -> int:
    """Numbers that the component adds to the LM: those of its tensors, without the LM's own output
    embedding; of M only what is not zero."""
    if isinstance(component, Clusters):
        return component.multiplications + len(component.bias)
    skipped = {"counts"} if condition.own_embedding else {"counts", "embedding"}
    tensors = component.tensors()
    return sum(value.numel() for name, value in tensors.items() if name not in skipped)
