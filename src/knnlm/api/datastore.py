"""`Datastore`: the hidden states of a text and the tokens that followed them, as one object."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm import defaults
from knnlm.api.choices import index_of, model_of
from knnlm.api.evaluation_texts import last_validation_text, read_queries, read_states
from knnlm.api.inventory import DatastoreInfo, VerifyResult, inventory, verify_all
from knnlm.argument_types import check_types
from knnlm.components import list_components
from knnlm.datastore import Entries, build_entries, open_entries
from knnlm.defaults import COMPONENT_KIND
from knnlm.errors import UsageError
from knnlm.evaluation import check_enough, choose_settings
from knnlm.files import short_path
from knnlm.models import LanguageModel, load_model
from knnlm.search import Index, Neighbors, Retrieval, build_index, list_indexes, open_search
from knnlm.similarity import checked_metric
from knnlm.text import Split, Text, open_text
from knnlm.training import DEFAULT_FIT, KINDS, Distilled, DistillRequest, component_spec
from knnlm.training import combine as combine_components
from knnlm.training import distill as distill_component


class Datastore:
    """A datastore on disk, and the model that it was built with.

    Make one with `Datastore.build`, open one with `Datastore.open`.

    Example:
        >>> store = Datastore.build("gpt2", text="docs/", path="store")       # doctest: +SKIP
        >>> store.build_index()                                               # doctest: +SKIP
        >>> store.search(states, k=10).ids                                    # doctest: +SKIP
    """

    def __init__(
        self,
        entries: Entries,
        model: str | Path | LanguageModel | None = None,
        device: str | None = None,
    ) -> None:
        if not isinstance(entries, Entries):
            raise UsageError("a Datastore is made by Datastore.build or Datastore.open: use those")
        self.entries = entries
        self._model, self._device = model, device

    @classmethod
    @check_types
    def build(
        cls,
        model: str | Path | LanguageModel,
        text: Text,
        path: str | Path,
        *,
        keys: str | Sequence[str] | None = None,
        att_module: str | None = None,
        window: int | None = None,
        stride: int | None = None,
        logprobs: bool = False,
        dtype: str = "float16",
        device: str | None = None,
        precision: str = "float32",
        adapter: str | Path | None = None,
    ) -> "Datastore":
        """Store, for every token of a text, the hidden states that predicted it.

        An interrupted build resumes; a finished one is opened.

        Args:
            model: A model folder, a hub name or a .gguf file; or an open model.
            text: What to remember: a path or several, `HubDataset(…)` or `PythonDocs()`.
            path: The folder of the datastore.
            keys: Which hidden states: "att", "ffn" or both (the default where att is known).
            att_module: Of an unknown architecture, the module whose input is att.
            window: Tokens that are read at once.
            stride: New tokens in each window; half of it by default.
            logprobs: Whether log p_LM is stored too.
            dtype: How hidden states are stored: "float16" or "float32".
            device: "cpu", "cuda", "cuda:1" …; CUDA by default where there is one.
            precision: How the model computes: "float32", "bfloat16", "float16" or "auto".
            adapter: A PEFT adapter of the model: folder or hub name.

        Raises:
            KnnlmError: If the model cannot be read, or the text is empty.
        """
        source = open_text(text, "train")
        if not isinstance(model, LanguageModel):
            model = load_model(model, device=device, precision=precision, adapter=adapter)
        entries = build_entries(
            model,
            source,
            Path(path),
            keys=keys,
            att_module=att_module,
            window=window,
            stride=stride,
            logprobs=logprobs,
            dtype=dtype,
        )
        return cls(entries, model, device)

    @classmethod
    @check_types
    def open(
        cls,
        path: str | Path,
        *,
        model: str | Path | LanguageModel | None = None,
        device: str | None = None,
    ) -> "Datastore":
        """Open a finished datastore.

        Args:
            path: Its folder.
            model: Its model, if that has moved since the datastore was built.
            device: Where the model runs, once it is needed.
        """
        return cls(open_entries(path), model, device)

    def __len__(self) -> int:
        """How many entries it holds."""
        return self.entries.count

    def __repr__(self) -> str:
        keys = ", ".join(self.keys)
        return f"Datastore({short_path(self.path)!r}, {len(self):,} entries, keys {keys})"

    @property
    def path(self) -> Path:
        """The folder that it is kept in."""
        return self.entries.path

    @property
    def keys(self) -> tuple[str, ...]:
        """Which hidden states it holds."""
        return self.entries.keys

    @property
    def indexes(self) -> list[str]:
        """Names of the indexes that were built of it."""
        return list_indexes(self.entries)

    @property
    def components(self) -> list[str]:
        """Names of the components that were distilled from it."""
        return list_components(self.entries)

    @cached_property
    def model(self) -> LanguageModel:
        """The model that it was built with, opened when it is first needed."""
        return model_of(self.entries, self._model, self._device)

    @check_types
    def build_index(
        self,
        *,
        key: str | None = None,
        metric: str = "l2",
        factory: str | None = None,
        nprobe: int = defaults.NPROBE,
        recall_floor: float = defaults.RECALL_FLOOR,
    ) -> Index:
        """Build a FAISS index of one key and print its recall against exact search.

        Args:
            key: Which hidden state; the datastore's first by default.
            metric: "l2" or "ip".
            factory: A FAISS factory string; chosen by size by default.
            nprobe: Inverted lists that a search visits.
            recall_floor: An index below this recall is refused.

        Raises:
            KnnlmError: If FAISS cannot build it, or its recall is below the floor.
        """
        return build_index(
            self.entries,
            key or self.keys[0],
            checked_metric(metric),
            factory=factory,
            nprobe=nprobe,
            recall_floor=recall_floor,
        )

    @check_types
    def search(
        self,
        queries: NDArray[Any],
        k: int = defaults.K,
        *,
        key: str | None = None,
        metric: str = "l2",
        exact: bool | None = None,
        index: str | None = None,
    ) -> Neighbors:
        """The k nearest entries of each query.

        Args:
            queries: Hidden states (Q, D).
            k: How many neighbors.
            key: Which hidden state is compared; the datastore's first by default.
            metric: "l2" or "ip".
            exact: Whether every entry is compared, the default; False uses the index of that key
                and metric.
            index: The name of an index, if there are several.

        Returns:
            Neighbors with `.ids` and `.scores` (Q, k), nearest first; higher scores are nearer, and
            a missing neighbor has id -1.

        Raises:
            UsageError: If queries have another width, or the index is of another key or metric.
        """
        key, chosen = key or self.keys[0], checked_metric(metric)
        asked = np.atleast_2d(np.asarray(queries))
        width = self.entries.key(key).type.width
        if asked.ndim != 2 or asked.shape[1] != width or asked.dtype.kind not in "fiu":
            raise UsageError(
                f"queries of shape {np.shape(queries)} do not fit {key} states of width {width}: "
                f"give an array of shape (queries, {width})"
            )
        if index is not None and exact:
            raise UsageError("`index` and `exact` exclude each other: give one of them")
        name = index
        if index is None and exact is False:
            name = index_of(self.entries, key, chosen)
        retrieval = Retrieval(key=key, metric=chosen, index=name, score="index", k=k)
        return open_search(self.entries, retrieval)(asked)

    @check_types
    def hidden_states(self, text: str, *, key: str | None = None) -> NDArray[Any]:
        """The hidden states of a short text, to search with.

        Args:
            text: A text that the model can read at once.
            key: Which hidden state; the datastore's first by default.

        Returns:
            States (tokens, D), rounded as the datastore's are. Each follows a token of the text,
            the first follows bos where the model has one, and the last predicts what comes next.

        Raises:
            UsageError: The text is longer than the model can read, or there is no such key.

        Example:
            >>> states = store.hidden_states("The with statement")       # doctest: +SKIP
            >>> store.search(states[-1:], k=5).ids                       # doctest: +SKIP
        """
        key = key or self.keys[0]
        self.entries.key(key)
        return read_states(self.entries, self.model, text, key)

    @check_types
    def queries(self, text: Text, split: Split = "test") -> Entries:
        """What the model reads in an evaluation text, kept in the datastore's cache.

        Raises:
            UsageError: If the text is in the datastore: every token would retrieve itself.
        """
        return read_queries(self.entries, open_text(text, split), self.model)

    @check_types
    def distill(
        self,
        text: Text | None = None,
        *,
        name: str | None = None,
        kind: str = COMPONENT_KIND,
        key: str | None = None,
        size: int | None = None,
        metric: str | None = None,
        soft_targets: float = 0.0,
        lr: float | None = None,
        epochs: int | None = None,
        seed: int = 0,
    ) -> Distilled:
        """Make a small component from the entries, to be used instead of a search.

        Args:
            text: The validation text that tunes it, and stops its training; the one that the
                datastore was tuned on by default.
            name: What to call it; its kind, and the key if one is given, by default.
            kind: "clusters", "head", "mixture-of-softmaxes" or "mlp".
            key: Which hidden state it reads; an MLP reads both.
            size: Clusters, embeddings per vocabulary entry, softmaxes, or the MLP's inner width.
            metric: "l2" or "ip", of clusters and heads.
            soft_targets: Share of the loss that the votes of neighbors in other documents have.
            lr: Learning rate.
            epochs: Passes over the entries, at most; clusters are trained only if it is given.
            seed: Of the start and of the order of entries.
        """
        spec = component_spec(self.entries, kind, key, size, metric)
        if name is None:
            name = kind if key is None else f"{kind}-{key}"
        wanted = {} if key is None else {"key": key}
        teacher = choose_settings(self.entries, **wanted) if soft_targets else None
        if soft_targets and teacher is None and spec.kind != "clusters":
            raise UsageError(
                f"{self.path} is not tuned, and neighbors teach at the tuned temperature: run "
                "`KNNLM.tune` first"
            )
        if spec.kind == "clusters" and lr is not None and epochs is None:
            raise UsageError(
                "clusters are trained further only if `epochs` is given: give it too, or leave out "
                "`lr`"
            )
        fit = None
        if spec.kind != "clusters" or epochs is not None:
            rate = KINDS[spec.kind].learning_rate if lr is None else lr
            fit = replace(DEFAULT_FIT, lr=rate, epochs=epochs or DEFAULT_FIT.epochs)
            if epochs is not None:
                fit = replace(fit, epochs=epochs)
        request = DistillRequest(
            spec=spec,
            name=name,
            fit=fit,
            soft_targets=soft_targets,
            teacher=teacher,
            seed=seed,
        )
        return distill_component(self.entries, self._validation(text), self.model, request)

    @check_types
    def combine(
        self, components: Sequence[str], text: Text | None = None, *, name: str = "mixture"
    ) -> Distilled:
        """Mix components into one, their weights and λ fitted together on a validation text.

        Args:
            components: Names of components of this datastore, or "knn" for its neighbors.
            text: The validation text; the one that the datastore was tuned on by default.
            name: What to call the mixture.
        """
        return combine_components(self.entries, self._validation(text), components, name=name)

    def info(self) -> DatastoreInfo:
        """What the datastore holds: entries, model, text, indexes, settings, components."""
        return inventory(self.entries)

    def verify(self) -> VerifyResult:
        """Compare every byte of the datastore and of what is kept with it with its checksum.

        Raises:
            DamagedError: If a file is damaged or missing.
        """
        return verify_all(self.entries)

    def _validation(self, text: Text | None) -> Entries:
        if text is None:
            return last_validation_text(self.entries)
        queries = self.queries(text, "valid")
        check_enough(queries.count)
        return queries
