"""A component learned from the rows of a store, stopped by the rows of a validation text.

    hard     loss = -log p(target)
    mixed    loss = -log( (1-λ) p_LM(target) + λ p(target) )              the paper's interpolated loss
    soft     loss = (1-s) · hard - s · Σ_w q(w) log p(w)                  q: what the neighbours said (soft.py)

Whatever is minimised, validation looks at the best mixture with the LM, since that is what a
component is for; it is finite also where the component alone holds a word impossible. The LM is not
run: its states, and for the mixture its log p, are there already. Knows nothing of results."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.single import Single
from knnlm.datastore.entries import Entries, states_of
from knnlm.datastore.table import Column
from knnlm.errors import KnnlmError
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.files import fingerprint
from knnlm.training.defaults import LEARNING_RATES
from knnlm.training.entry_batches import Batch, EntryBatches, in_memory
from knnlm.training.fit import FitResult, FitSettings, fit
from knnlm.training.initial import NOISE

BATCH = 256
DEFAULT_FIT = FitSettings(
    lr=LEARNING_RATES["embeddings"], epochs=3, validations_per_epoch=2, patience=3
)


class Learnable(Protocol):
    """A torch module that is a component at every moment (substitutes.py)."""

    def component(self) -> Single:
        """As it is now."""
        ...

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether it can still be learned."""
        ...


class Learned(NamedTuple):
    """A learned component and how its learning went."""

    component: Single
    fitted: FitResult


class Mixed(NamedTuple):
    """Learn to be mixed: λ, and log p_LM of the stored targets."""

    lam: float
    lm: NDArray[np.floating]


class Soft(NamedTuple):
    """Learn from what neighbours said: its share s of the loss, the words of every row and their
    probabilities."""

    share: float
    words: Column
    shares: Column


def learn(
    module: Learnable,
    store: Entries,
    valid: Entries,
    out: Path,
    how: FitSettings = DEFAULT_FIT,
    *,
    seed: int = 0,
    aim: Mixed | Soft | None = None,
    about: Mapping[str, Any],
) -> Learned:
    """Fit the module to `store`, stopped by `valid`; found again in `out` if it was fitted before.

    `about` says how the module began and what the aim was made of, so that nothing else is taken
    for it."""
    keys = module.component().keys
    columns = [store.key(key) for key in keys]
    batch = min(BATCH, store.count)
    batches = EntryBatches(columns, store.targets, batch, seed, more=_more(aim))
    states = states_of(valid, keys)
    of = _objective(aim)

    def validate() -> float:
        found = module.component().target_logprobs(states, valid.targets)
        if np.isnan(found).any():
            return math.nan
        return -float(np.mean(mix(valid.lm_logprob, found, fit_lambda(valid.lm_logprob, found))))

    recipe = fingerprint(
        {
            "store": store.fingerprint,
            "valid": valid.fingerprint,
            "about": dict(about),
            "how": how.settings(),
            "seed": seed,
            "batch": batch,
            "noise": NOISE,
            "aim": None if aim is None else [type(aim).__name__, aim[0]],
        }
    )
    fitted = fit(module, batches, lambda b: of(module.component(), b), validate, how, out, recipe)  # type: ignore[arg-type]
    module.requires_grad_(False)
    return Learned(module.component(), fitted)


def _more(aim: Mixed | Soft | None) -> dict[str, Column]:
    """What batches must carry for a loss, after checking its numbers."""
    if isinstance(aim, Mixed):
        if not 0 < aim.lam < 1:
            raise KnnlmError(
                f"lambda {aim.lam} of the interpolated loss is out of range: choose between 0 and 1"
            )
        return {"lm": in_memory(np.asarray(aim.lm, np.float32))}
    if isinstance(aim, Soft):
        if not 0 < aim.share <= 1:
            raise KnnlmError(
                f"share {aim.share} of the neighbours in the loss is out of range: choose above 0 "
                "to 1"
            )
        return {"words": aim.words, "shares": aim.shares}
    return {}


def _objective(aim: Mixed | Soft | None) -> Callable[[Single, Batch], torch.Tensor]:
    def hard(component: Single, batch: Batch) -> torch.Tensor:
        return component.target_losses(batch.states, batch.targets).mean()

    def mixed(component: Single, batch: Batch) -> torch.Tensor:
        assert isinstance(aim, Mixed)
        losses = component.target_losses(batch.states, batch.targets)
        return -torch.logaddexp(
            batch.more["lm"] + math.log1p(-aim.lam), math.log(aim.lam) - losses
        ).mean()

    def soft(component: Single, batch: Batch) -> torch.Tensor:
        assert isinstance(aim, Soft)
        logs = component.logprobs(batch.states)
        said = logs.gather(1, batch.more["words"].long())
        of_neighbours = -(batch.more["shares"].float() * said).sum(1).mean()
        return (1 - aim.share) * -logs.gather(
            1, batch.targets[:, None]
        ).mean() + aim.share * of_neighbours

    return mixed if isinstance(aim, Mixed) else soft if isinstance(aim, Soft) else hard
