"""What every predictor offers: log p(token) from hidden states, whatever it computes inside.

A component is a distribution p(token | hidden states) that is mixed with the base LM's. The kNN
component is one; the full datastore, clusters, learned heads, mixtures of softmaxes, MLPs and
mixtures of any of these are its siblings. They are tuned, evaluated, saved and generated with by
the same code. No component knows λ, and none looks at the target it is asked about.

Hidden states arrive as (B, X): those of several keys side by side, in the order of `keys`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.outputs import Predicted as Predicted
from knnlm.components.outputs import ScoredTokens as ScoredTokens
from knnlm.components.outputs import Votes
from knnlm.datastore import Entries
from knnlm.search import Neighbors, Retrieval
from knnlm.tensors import save_tensors

Logs = NDArray[np.float64]


class Queries(Protocol):
    """An evaluation text: hidden states and the tokens that they predict. `Entries` is one."""

    @property
    def targets(self) -> NDArray[np.int32]:
        """The token that each hidden state predicts."""
        ...

    def states(self, keys: tuple[str, ...]) -> NDArray[Any]:
        """The hidden states (N, X) of several keys side by side."""
        ...


class QueryArrays(NamedTuple):
    """An evaluation text in memory, for whoever has read its hidden states already."""

    read: NDArray[Any]
    targets: NDArray[np.int32]

    def states(self, keys: tuple[str, ...]) -> NDArray[Any]:
        """The hidden states, which must be those of `keys`."""
        return self.read


class TargetScores(ABC):
    """log p of every target of one text under one component, at any τ.

    What does not depend on τ is computed once, when the object is made.
    """

    has_temperature = True
    """Whether τ changes anything."""
    precision = 1.02
    """The search for the best τ ends with steps below this factor."""
    first_look: int | None = None
    """How many queries a first, wide search for τ looks at where all take long; None: all."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """A τ of the right order of magnitude: the search for the best τ starts around it."""

    @abstractmethod
    def logprobs(self, tau: float) -> Logs:
        """log p(target) of every query at τ; -inf where the component holds it impossible."""

    def several(self, taus: Sequence[float]) -> list[Logs]:
        """The same at several τ; cheaper than one by one where a pass over the data is shared."""
        return [self.logprobs(tau) for tau in taus]

    @abstractmethod
    def sample(self, rows: NDArray[np.integer]) -> "TargetScores":
        """The same for some queries only, in ascending order."""


class SavedState(NamedTuple):
    """A component taken apart for its file: its kind, its tensors, and its other fields as JSON."""

    kind: str
    tensors: dict[str, torch.Tensor]
    fields: dict[str, Any]


class Loader(Protocol):
    """What a component may need to be made from its saved state (saving.py has one)."""

    def datastore(self, kind: str) -> Entries:
        """The datastore that a component of this kind retrieves from."""
        ...

    def component(self, state: SavedState) -> "Component":
        """Another component, for those that are made of several."""
        ...


class Component(ABC):
    """A predictor that can be mixed with a base LM. Immutable, and safe for concurrent calls.

    Example:
        >>> component = KNNLM(store).component                                  # doctest: +SKIP
        >>> states = store.hidden_states("The with", key=component.keys[0])     # doctest: +SKIP
        >>> component.logprobs(torch.from_numpy(states).float())  # (B, V)      # doctest: +SKIP
    """

    kind: ClassVar[str]
    """Its name in files and on the command line."""
    keys: tuple[str, ...]
    """The hidden states that it reads."""
    tau: float
    """Its softmax temperature."""
    retrieval: Retrieval | None = None
    """How it retrieves neighbors; None where it retrieves nothing."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""

    @property
    @abstractmethod
    def multiplications(self) -> int | None:
        """Multiplications for one token; None where they are not known."""

    @abstractmethod
    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p over the vocabulary for some hidden states.

        Args:
            states: Hidden states (B, X): those of several keys side by side, in the order of
                `keys`.

        Returns:
            log p (B, V), on the device of the states.

        Raises:
            KnnlmError: The component searches, and a state does not fit the datastore's type.
        """

    @abstractmethod
    def target_scores(self, queries: Queries) -> TargetScores:
        """log p of the targets of a text, at any τ.

        Args:
            queries: The text: hidden states and the tokens that they predict.

        Returns:
            An object that gives log p at any τ; what does not depend on τ is computed here, once.

        Raises:
            KnnlmError: The component searches, and its index is missing or outdated.
        """

    @abstractmethod
    def at_temperature(self, tau: float) -> Self:
        """The same component at another τ.

        Args:
            tau: The retrieval temperature τ, above 0.

        Returns:
            A new component that shares its tensors and files with this one.

        Raises:
            UsageError: τ is out of range, or the component has none.
        """

    @abstractmethod
    def saved_state(self) -> SavedState:
        """Its kind, tensors and other fields, for a file; entries stay in the datastore."""

    @classmethod
    @abstractmethod
    def from_saved_state(cls, state: SavedState, loader: Loader) -> Self:
        """Make a component from what `saved_state` returned.

        Args:
            state: Its kind, tensors and other fields.
            loader: Gives the datastore, and the parts of a mixture.

        Returns:
            The component as it was saved.

        Raises:
            KnnlmError: The component retrieves, and the loader has no datastore.
        """

    def check_parts(self) -> None:
        """Raise an exception unless what it was made of fits together."""
        return

    def save(self, file: Path, about: Mapping[str, Any] | None = None) -> None:
        """Write it to a file, whole or not at all; `load_component` reads it.

        Args:
            file: The file, in the safetensors format.
            about: A note as JSON that is kept with it.

        Raises:
            KnnlmError: The file cannot be written.
        """
        kind, tensors, fields = self.saved_state()
        save_tensors(file, tensors, {"kind": kind, "about": dict(about or {}), "fields": fields})

    def target_logprobs(self, queries: Queries) -> Logs:
        """log p of the targets of a text at the component's own τ.

        Args:
            queries: The text: hidden states and the tokens that they predict.

        Returns:
            log p of each target; -inf where the component holds it impossible.

        Raises:
            KnnlmError: The component searches, and its index is missing or outdated.
        """
        return self.target_scores(queries).logprobs(self.tau)

    def score_tokens(self, states: torch.Tensor, targets: torch.Tensor) -> "ScoredTokens":
        """log p of one token for each hidden state, with what was retrieved for it.

        Args:
            states: Hidden states (B, X), as `logprobs` takes them.
            targets: The tokens (B,).

        Returns:
            log p (B,), and the neighbors if the component retrieves.
        """
        logs = self.logprobs(states).gather(1, targets[:, None])[:, 0]
        return ScoredTokens(logs.double().cpu().numpy(), None)

    def predict(
        self, states: torch.Tensor, k: int | None = None, near: Neighbors | None = None
    ) -> Predicted:
        """log p over the vocabulary, with what was retrieved for it.

        Args:
            states: Hidden states (B, X), as `logprobs` takes them.
            k: How many of the nearest neighbors vote, if fewer than the component's own.
            near: The neighbors, if `retrieve` found them already.

        Returns:
            log p (B, V), and the neighbors if the component retrieves.
        """
        return Predicted(self.logprobs(states), None)

    def votes(self, states: torch.Tensor, near: Neighbors | None = None) -> Votes | None:
        """`logprobs` of the few tokens that have any probability, which is cheaper to mix.

        Args:
            states: Hidden states (B, X), as `logprobs` takes them.
            near: The neighbors, if they are known already.

        Returns:
            The votes; None where every token has a probability.
        """
        return None

    def retrieve(self, states: torch.Tensor, k: int) -> Neighbors | None:
        """The k nearest entries, also more than vote.

        Args:
            states: Hidden states (B, X), as `logprobs` takes them.
            k: How many.

        Returns:
            The neighbors; None where nothing is retrieved.
        """
        return None

    def prepare(self) -> None:
        """Open what it needs, so that an error comes now and not in the middle of a text.

        Raises:
            KnnlmError: The component searches, and its index is missing or outdated.
            DamagedError: A file that is read is damaged.
        """
        return

    def recall(self, queries: Queries) -> float | None:
        """recall@k of its search, measured on some tokens of a text.

        Args:
            queries: The text.

        Returns:
            The share of the neighbors of an exact search that it finds; None where nothing is
            retrieved.
        """
        return None

    def to(self, device: torch.device) -> Self:
        """The same component with its tensors on a device.

        Args:
            device: The device.

        Returns:
            A new component, or this one if it has no tensors.
        """
        return self
