"""What is saved of a kNN-LM beside its base LM's weights: which store, and how it is used.

The store itself stays where it is; the reference is its path and the fingerprint of its manifest.
"""

from typing import Any

import transformers

from knnlm.datastore.entries import Entries, open_entries
from knnlm.errors import KnnlmError
from knnlm.search.retrieval import Retrieval, check_index
from knnlm.training.distillation import about_distilled


# transformers is not typed here
class KNNLMConfig(transformers.PreTrainedConfig):  # type: ignore[misc]
    """Configuration of a KNNLMForCausalLM. `knn` holds `lambda`, `temperature`, and the fields of a
    Retrieval or the name of a component that is used in its place."""

    model_type = "knnlm"
    # transformers wants a plain dict here
    sub_configs = {"base_config": transformers.AutoConfig}  # noqa: RUF012

    base_config: Any = None
    store: str = ""
    store_fingerprint: str = ""
    knn: dict[str, Any] | None = None
    vocab_size: int | None = None
    max_position_embeddings: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill in what generic code looks for at the top."""
        if isinstance(self.base_config, dict):
            named = dict(self.base_config)
            self.base_config = transformers.AutoConfig.for_model(named.pop("model_type"), **named)
        if self.base_config is not None:
            inner = self.base_config.get_text_config()
            self.vocab_size = inner.vocab_size
            self.max_position_embeddings = getattr(inner, "max_position_embeddings", None)
            for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
                kwargs.setdefault(name, getattr(self.base_config, name, None))
            kwargs.setdefault("tie_word_embeddings", self.base_config.tie_word_embeddings)
        super().__post_init__(**kwargs)

    def get_text_config(self, *args: Any, **kwargs: Any) -> Any:
        """The base LM's: caches and continuous batching are shaped by it."""
        return (
            self if self.base_config is None else self.base_config.get_text_config(*args, **kwargs)
        )

    @property
    def lam(self) -> float:
        """λ."""
        return float(self._setting("lambda"))

    @property
    def tau(self) -> float:
        """τ of the neighbours' votes."""
        return float(self._setting("temperature"))

    @property
    def component(self) -> str | None:
        """The store's component that is used in the place of the search."""
        return None if self.knn is None else self.knn.get("component")

    @property
    def retrieval(self) -> Retrieval:
        """What is retrieved and how it is scored."""
        names = ("key", "metric", "mask", "score", "k")
        return Retrieval.from_json({name: self._setting(name) for name in names})

    def open_entries(self) -> Entries:
        """The store that this was saved with, after checking that it is the same."""
        store = open_entries(self.store)
        if store.fingerprint != self.store_fingerprint:
            raise KnnlmError(
                f"{self.store} has changed since this kNN-LM was saved: restore the store, or load "
                "and save anew"
            )
        return store

    def check_index(self, store: Entries) -> None:
        """Refuse an index or a component that is not the one that this was saved with."""
        if self.component is not None:
            if about_distilled(store, self.component)["xxh3"] != self._setting("xxh3"):
                raise KnnlmError(
                    f"component {self.component} of {store.path} has changed since this kNN-LM was "
                    "saved: load and "
                    "save it anew"
                )
            return
        index = check_index(store, self.retrieval)
        if index is not None and index["xxh3"] != self._setting("index"):
            raise KnnlmError(
                f"index {self.retrieval.index} of {store.path} has changed since this kNN-LM was "
                "saved: tune the store "
                "and save anew"
            )

    def _setting(self, name: str) -> Any:
        if self.knn is None or name not in self.knn:
            raise KnnlmError(
                f"this kNN-LM's configuration has no '{name}': save it anew with knnlm.load(STORE)"
            )
        return self.knn[name]
