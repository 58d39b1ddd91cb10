"""Learns what rows ask for, once: substitutes fitted from a store, with their log p of both splits.

The learning rate is chosen on validation once for each kind, state and loss, on the main LM at the
smallest size, and then used for every size, seed and LM: so a curve over sizes is of one recipe,
which the paper's is not (F5). Where the best of the rates is the lowest or the highest, the next
one beyond is tried. Knows nothing of λ or of results."""

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.components.base import LearnedComponent
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
from knnlm.training.kinds import ComponentSpec, Kind
from knnlm.training.learn import BATCH, DEFAULT_FIT
from knnlm.training.loop import Diverged
from knnlm.training.objectives import InterpolatedLoss, Objective, SoftTargetLoss
from knnlm.training.soft_targets import KEPT
from knnlm_paper.rows import Learned
from knnlm_paper.scales import Scale
from knnlm_paper.workshop import Workshop

_FURTHER, _STEP = 2, 3.0
KINDS: dict[str, Kind] = {
    "embeddings": "head",
    "softmaxes": "mixture-of-softmaxes",
    "network": "mlp",
    "clusters": "clusters",
}
"""Kinds of components as rows and their records call them, and as the library does."""
TeacherTau = Callable[[str, int | None], float]


class Taught(NamedTuple):
    """What was learned for a row: the component, how learning went (None: nothing was), at which
    rate, and how many numbers it adds to the LM."""

    component: LearnedComponent
    fitted: FitResult | None
    rate: float | None
    parameters: int


class Apprentice:
    """Learns in a workshop's folder. `teacher_tau` gives the τ at which an LM's neighbours
    teach."""

    def __init__(self, workshop: Workshop, teacher_tau: TeacherTau) -> None:
        self.workshop, self.teacher_tau = workshop, teacher_tau
        self._pilots: dict[Learned, dict[float, FitResult]] = {}
        self._lm_logs: dict[tuple[str, int | None], NDArray[np.float64]] = {}

    def taught(self, row: Learned) -> Taught:
        """The component of a row."""
        if not row.fitted:
            component = self._clusters(row)
            return Taught(component, None, None, component.multiplications)
        rate = self._rate(row)
        found = self._fit(row, rate)
        return Taught(found.component, found.fit, rate, _parameters(row, found.component))

    def pilots(self, row: Learned) -> dict[float, FitResult]:
        """What came of every rate that was tried for the family of a row, in order."""
        first, scale = first_of_family(row, self.workshop.scale), self.workshop.scale
        if first not in self._pilots:
            found = {rate: self._try(first, rate) for rate in scale.learning.rates}
            while len(found) < len(scale.learning.rates) + _FURTHER:
                rates = sorted(found)
                best = min(rates, key=lambda rate: found[rate].valid_loss)
                if len(rates) == 1 or best not in (rates[0], rates[-1]):
                    break
                rate = float(f"{best * _STEP if best == rates[-1] else best / _STEP:.1g}")
                found[rate] = self._try(first, rate)
            self._pilots[first] = {rate: found[rate] for rate in sorted(found)}
        return self._pilots[first]

    def logprobs(
        self, row: Learned, component: LearnedComponent, split: str
    ) -> NDArray[np.float64]:
        """log p of a split's targets."""
        queries = self.workshop.plain(*row.lm).queries(split)
        return component.target_logprobs(queries)

    def _rate(self, row: Learned) -> float:
        found = self.pilots(row)
        return min(found, key=lambda rate: found[rate].valid_loss)

    def _try(self, row: Learned, rate: float) -> FitResult:
        try:
            return self._fit(row, rate).fit
        except Diverged:
            return FitResult(0, 0, math.inf, 0.0)

    def _fit(self, row: Learned, rate: float) -> learning.Learned:
        m = self.workshop.plain(*row.lm)
        module, about = self._begin(row)
        aim, of_aim = self._aim(row)
        points = self.workshop.scale.learning
        how = replace(DEFAULT_FIT, lr=rate, epochs=points.epochs)
        return learning.learn(
            module,
            m.store,
            m.valid,
            self._folder(row) / f"lr-{rate:g}",
            how,
            seed=row.seed,
            objective=aim,
            about={**about, **of_aim},
        )

    def _begin(self, row: Learned) -> tuple[LearnableModule, dict[str, Any]]:
        """The module of a row, and what it began as."""
        if row.kind == "clusters":
            start = self._clusters(row)
            valid = self.workshop.plain(*row.lm).valid
            lm = valid.lm_logprob.astype(np.float64)
            tau = best_temperature(lm, start.target_scores(valid)).tau
            tuned = start.at_temperature(tau)
            return initial_clusters(tuned), {"row": asdict(row), "tau": tau}
        w_sm = output_embedding(self.workshop.lms.model(*row.lm).model).weight
        what = ComponentSpec(
            kind=KINDS[row.kind],
            keys=row.keys,
            size=int(row.size),
            metric=row.metric,
            own_embedding=row.own_embedding,
        )
        return initial_module(what, w_sm, self._counts(row), row.seed), {"row": asdict(row)}

    def _clusters(self, row: Learned) -> Clusters:
        store = self.workshop.plain(*row.lm).store
        file = self._folder(replace(row, fitted=False)) / "clusters.safetensors"
        count = max(1, min(int(row.size * store.vocab_size), store.count))
        return cluster(store, row.state, count, row.metric, file, seed=row.seed)

    def _counts(self, row: Learned) -> NDArray[np.int64] | None:
        """Rows for each word, where they are not the same for all."""
        if row.sizing == "equal":
            return None
        store = self.workshop.plain(*row.lm).store
        weight = None if row.sizing == "frequency" else -self._lm_logprobs(row)
        counts = np.bincount(store.targets, weights=weight, minlength=store.vocab_size)
        if row.sizing == "loss":
            counts = counts + 1  # as in the paper's code: a word that costs nothing has weight one
        return embeddings_by_weight(counts, int(row.size * store.vocab_size))

    def _aim(self, row: Learned) -> tuple[Objective | None, dict[str, Any]]:
        if row.lam is not None and row.soft:
            raise KnnlmError(
                "a row learns from the mixture or from neighbours: choose one of lam and soft"
            )
        if row.lam is not None:
            return InterpolatedLoss(row.lam, self._lm_logprobs(row)), {}
        if row.soft:
            table = self.workshop.elsewhere(*row.lm, self.teacher_tau(*row.lm))
            return SoftTargetLoss(row.soft, table.columns["words"], table.columns["shares"]), {
                "teacher": table.manifest["meta"]
            }
        return None, {}

    def _lm_logprobs(self, row: Learned) -> NDArray[np.float64]:
        """log p_LM of the stored targets, from the stored states: the LM's body is not run
        again."""
        if row.lm not in self._lm_logs:
            store, model = (
                self.workshop.plain(*row.lm).store,
                self.workshop.lms.model(*row.lm).model,
            )
            lm = TemperedLM(model, store.key("ffn"), store.targets)
            self._lm_logs[row.lm] = lm.logprobs(1.0)
        return self._lm_logs[row.lm]

    def _folder(self, row: Learned) -> Path:
        return self.workshop.folder / "learned" / made_with(self.workshop.scale) / row.name


def first_of_family(row: Learned, scale: Scale) -> Learned:
    """The row on which the learning rate of a row is chosen."""
    points = scale.learning
    sizes = {
        "embeddings": points.sizes,
        "softmaxes": points.views,
        "network": points.networks,
        "clusters": points.clusters,
    }
    return Learned(
        state=row.state,
        kind=row.kind,
        size=sizes[row.kind][0],
        metric=row.metric,
        lam=row.lam,
        soft=points.soft[0] if row.soft else 0.0,
    )


def made_with(scale: Scale) -> str:
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
                sizes[0] for sizes in (points.sizes, points.views, points.networks, points.clusters)
            ],
        }
    )[:16]


def _parameters(row: Learned, component: LearnedComponent) -> int:
    """Numbers that the component adds to the LM: those of its tensors, without the LM's own output
    embedding; of M only what is not zero."""
    if isinstance(component, Clusters):
        return component.multiplications + len(component.bias)
    skipped = {"counts"} if row.own_embedding else {"counts", "embedding"}
    tensors = component.tensors()
    return sum(value.numel() for name, value in tensors.items() if name not in skipped)
