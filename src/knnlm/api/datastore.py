"""`Datastore`: the hidden states of a text and the tokens that followed them, as one object."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from knnlm import defaults
from knnlm.api.choices import distill_request
from knnlm.api.evaluation_texts import last_validation_text, read_states, read_text
from knnlm.api.on_disk import DatastoreOnDisk
from knnlm.api.settings import query_states, search_retrieval
from knnlm.argument_types import check_types
from knnlm.datastore import Entries, build_entries, open_entries
from knnlm.evaluation import check_enough
from knnlm.models import LanguageModel, load_model
from knnlm.search import Index, Neighbors, build_index, open_search
from knnlm.similarity import checked_metric
from knnlm.text import Split, Text, open_for_datastore, text_as_json
from knnlm.training import Distilled, combine, distill


class Datastore(DatastoreOnDisk):
    """A datastore on disk, and the model that it was built with.

    Make one with `Datastore.build`, open one with `Datastore.open`.

    Example:
        >>> store = Datastore.build("gpt2", text="docs/", path="store")    # doctest: +SKIP
        >>> store.build_index()                                            # doctest: +SKIP
    """

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
            text: A path or several, `Folder(…)`, `HubDataset(…)` or `PythonDocs()`.
            path: The folder of the datastore.
            keys: Which hidden states: "att", "ffn" or both (the default where att is known).
            att_module: Of an unknown architecture, the module whose input is att.
            window: Tokens that are read at once; by default all that the model can, at most 1024.
            stride: New tokens in each window; half of the window by default.
            logprobs: Whether log p_LM is stored too.
            dtype: How hidden states are stored: "float16" or "float32".
            device: "cpu", "cuda", "cuda:1" …; CUDA by default where there is one.
            precision: How the model computes: "float32", "bfloat16", "float16" or "auto".
            adapter: A PEFT adapter of the model: folder or hub name.

        Returns:
            The finished datastore.

        Raises:
            UsageError: A setting is unknown or out of range, or a path of the text does not exist.
            KnnlmError: The model or text cannot be read, or the folder holds something else.

        Example:
            >>> store = Datastore.build("gpt2", "docs/", "store", keys="att")    # doctest: +SKIP
        """
        source = open_for_datastore(text)
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
            text_name=text_as_json(text),
            estimate=True,
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

        Returns:
            The datastore; its model is opened when it is first needed.

        Raises:
            KnnlmError: There is no finished datastore in the folder, or a file is missing.

        Example:
            >>> store = Datastore.open("store", device="cpu")    # doctest: +SKIP
        """
        return cls(open_entries(path), model, device)

    @check_types
    def build_index(
        self,
        *,
        key: str | None = None,
        metric: str = "l2",
        factory: str | None = None,
        nprobe: int | None = None,
        refine: int | None = None,
        recall: float | None = None,
    ) -> Index:
        """Build a FAISS index of one key and measure its recall against exact search.

        Args:
            key: Which hidden state; the datastore's first by default.
            metric: "l2" or "ip".
            factory: A FAISS factory string; chosen by size by default, "small" for half the size.
            nprobe: Lists that a search visits; 32 by default if a factory is named.
            refine: Candidates for each neighbor that are scored again from the stored states.
            recall: The recall@1024 that nprobe and refine are chosen for; 0.95 by default.

        Returns:
            The index, open; its `manifest` holds the recall. One that was built before is opened.

        Raises:
            UsageError: A name is unknown, or a number is out of range.
            KnnlmError: FAISS cannot build the index, or it does not reach the recall.

        Example:
            >>> store.build_index(key="att", factory="IVF64,Flat")    # doctest: +SKIP
        """
        return build_index(
            self.entries,
            key or self.keys[0],
            checked_metric(metric),
            factory=factory,
            nprobe=nprobe,
            refine=refine,
            recall=recall,
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
            key: Which hidden state they are; the datastore's first by default.
            metric: "l2" or "ip".
            exact: Whether every entry is compared (the default); False uses the index.
            index: The name of an index, if there are several of that key and metric.

        Returns:
            The neighbors (Q, k), nearest first; where there are fewer, the last are missing.

        Raises:
            UsageError: The width of the queries, k or the index does not fit, or a name is unknown.
            KnnlmError: The key is not stored, or the datastore has changed since it was indexed.

        Example:
            >>> store.search(store.hidden_states("The with"), k=10).ids    # doctest: +SKIP
        """
        key = key or self.keys[0]
        states = query_states(self.entries, key, queries)
        retrieval = search_retrieval(self.entries, key, metric, exact=exact, index=index, k=k)
        return open_search(self.entries, retrieval)(states)

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
            UsageError: The text is longer than the model can read, or the key is unknown.
            KnnlmError: The key is not stored, or the model cannot be opened.

        Example:
            >>> states = store.hidden_states("The with statement")       # doctest: +SKIP
            >>> store.search(states[-1:], k=5).ids                       # doctest: +SKIP
        """
        key = key or self.keys[0]
        self.entries.key(key)
        return read_states(self.entries, self.model, text, key)

    @check_types
    def queries(
        self, text: Text | None = None, split: Split = "test", *, allow_overlap: bool = False
    ) -> Entries:
        """What the model reads in an evaluation text, kept in the datastore's cache.

        Args:
            text: A text that is not in the datastore; by default its own, if that has splits.
            split: Which part of it: "train", "valid" or "test".
            allow_overlap: Whether it may be in the datastore, where it retrieves itself.

        Returns:
            The text's entries: hidden states, targets and log p_LM.

        Raises:
            UsageError: The text is missing, is in the datastore, or has no splits to choose from.
            KnnlmError: The model or the text cannot be read, or the text is empty.

        Example:
            >>> queries = store.queries("test.txt")                  # doctest: +SKIP
            >>> store.search(queries.states(["att"])[:100], k=10)    # doctest: +SKIP
        """
        return read_text(self.entries, text, split, self.model, allow_overlap=allow_overlap)

    @check_types
    def distill(
        self,
        text: Text | None = None,
        *,
        name: str | None = None,
        kind: str = defaults.COMPONENT_KIND,
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
            text: The validation text; by default the last one, or the datastore's own.
            name: What to call it; its kind, and the key if one is given, by default.
            kind: "clusters", "head", "mixture-of-softmaxes" or "mlp".
            key: Which hidden state it reads; an MLP reads both.
            size: Clusters, embeddings per vocabulary entry, softmaxes, or the MLP's inner width.
            metric: "l2" or "ip", for clusters and heads.
            soft_targets: Share of the loss that the votes of neighbors in other documents have.
            lr: Learning rate; by default the best measured for the kind.
            epochs: Passes over the entries, at most; clusters are trained only if it is given.
            seed: Decides the first weights and the order of entries.

        Returns:
            The component with its tuned λ and τ; `KNNLM(store, component=name)` uses it.

        Raises:
            UsageError: A setting is unknown, out of range or not for this kind.
            KnnlmError: The datastore lacks a hidden state that is read, or training diverges.

        Example:
            >>> store.distill("valid.txt", kind="head", key="att", name="head")    # doctest: +SKIP
            >>> KNNLM(store, component="head").evaluate("test.txt")                # doctest: +SKIP
        """
        request = distill_request(
            self.entries,
            name=name,
            kind=kind,
            key=key,
            size=size,
            metric=metric,
            soft_targets=soft_targets,
            lr=lr,
            epochs=epochs,
            seed=seed,
        )
        return distill(self.entries, self._validation(text), self.model, request)

    @check_types
    def combine(
        self, components: Sequence[str], text: Text | None = None, *, name: str = "mixture"
    ) -> Distilled:
        """Mix components into one, their weights and λ fitted together on a validation text.

        Args:
            components: Names of components of this datastore, or "knn" for its neighbors.
            text: The validation text; the one that the datastore was tuned on by default.
            name: What to call the mixture.

        Returns:
            The mixture with its tuned λ.

        Raises:
            UsageError: Fewer than two components are named, or a name is unknown.
            KnnlmError: A component is not tuned.

        Example:
            >>> store.combine(["knn", "head"], name="both")    # doctest: +SKIP
        """
        return combine(self.entries, self._validation(text), self.model, components, name=name)

    def _validation(self, text: Text | None) -> Entries:
        last = last_validation_text(self.entries) if text is None else None
        if last is None:
            last = self.queries(text, "valid")
            check_enough(last.count, len(last.documents))
        return last
