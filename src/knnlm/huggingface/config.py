"""What is saved of a kNN-LM beside its base LM's weights: which datastore, and how it is used.

The datastore stays where it is; the reference is its path and the fingerprint of its manifest.
"""

from typing import Any

import transformers

from knnlm.components import KNN_NAME, component_checksum
from knnlm.datastore import Entries, open_entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation import TunedSettings


# transformers is not typed here
class KNNLMConfig(transformers.PreTrainedConfig):  # type: ignore[misc]
    """Configuration of a KNNLMForCausalLM.

    `settings` holds the component, its retrieval, λ and τ (the fields of `TunedSettings`), and
    `checksum` what tells whether that component or its index is still the same.
    """

    model_type = "knnlm"
    # transformers wants a plain dict here
    sub_configs = {"base_config": transformers.AutoConfig}  # noqa: RUF012

    base_config: Any = None
    datastore: str = ""
    datastore_fingerprint: str = ""
    settings: dict[str, Any] | None = None
    checksum: str | None = None
    vocab_size: int | None = None
    max_position_embeddings: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill in what generic code looks for at the top."""
        if isinstance(self.base_config, dict):
            fields = dict(self.base_config)
            model_type = fields.pop("model_type")
            self.base_config = transformers.AutoConfig.for_model(model_type, **fields)
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
        if self.base_config is None:
            return self
        return self.base_config.get_text_config(*args, **kwargs)

    @property
    def tuned(self) -> TunedSettings:
        """The component, its retrieval, λ and τ."""
        try:
            assert self.settings is not None
            return TunedSettings.from_json(self.settings)
        except (AssertionError, TypeError, UsageError) as error:
            raise KnnlmError(
                "this kNN-LM's configuration has no settings: save it again with "
                "KNNLM(store).to_transformers().save_pretrained(folder)"
            ) from error

    def open_datastore(self) -> Entries:
        """The datastore that this was saved with, after checking that it is the same."""
        entries = open_entries(self.datastore)
        if entries.fingerprint != self.datastore_fingerprint:
            raise KnnlmError(
                f"{self.datastore} has changed since this kNN-LM was saved: restore the datastore, "
                "or load and save again"
            )
        return entries

    def check_component(self, entries: Entries) -> None:
        """Raise a KnnlmError unless component and index are those that this was saved with."""
        tuned = self.tuned
        if component_checksum(entries, tuned.component, tuned.retrieval) == self.checksum:
            return
        changed = f"component {tuned.component}"
        if tuned.component == KNN_NAME and tuned.retrieval is not None:
            changed = f"index {tuned.retrieval.index}"
        raise KnnlmError(
            f"{changed} of {entries.path} has changed since this kNN-LM was saved: load and save "
            "it again"
        )
