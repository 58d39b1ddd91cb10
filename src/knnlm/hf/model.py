"""KNNLMForCausalLM: a causal LM whose logits are log P, the mixture's log-probabilities.

    logits = log( (1-λ)·softmax(W_sm·h_sm) + λ·p_kNN(· | h_ds) )

log_softmax(log P) = log P, so greedy search, sampling, beams, assisted generation, continuous batching, pipelines,
Trainer.evaluate and lm-eval use it as any other model; a sampling temperature acts on P. Knows no probabilities of its
own: the base LM, components/ and mixture.py give them.
"""

import copy
import inspect
import threading
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers.modeling_outputs import CausalLMOutputWithPast

from knnlm.components.knn import KNN, open_knn, vocabulary_logprobs
from knnlm.errors import UsageError
from knnlm.evaluation import Tuned
from knnlm.hf.config import KNNLMConfig
from knnlm.lm.load import LanguageModel, model_fingerprint
from knnlm.mixture import check_lambda, mix_vocabulary
from knnlm.search.neighbors import Neighbors
from knnlm.states.store import Store
from knnlm.taps import Tap

_ROWS_AT_ONCE = 256
# What transformers asks a model about itself: kinds of attention and of cache.
_AS_THE_BASE = (
    "_is_stateful", "_supports_sdpa", "_supports_flash_attn", "_supports_flex_attn", "_supports_attention_backend",
    "_can_set_attn_implementation", "_supports_default_dynamic_cache",
)  # fmt: skip


class Look(NamedTuple):
    """What the model thought of given tokens: natural log-probabilities, and the neighbours of each."""

    lm: NDArray[np.float64]
    knn: NDArray[np.float64]
    mixed: NDArray[np.float64]
    near: Neighbors


class _Parts(NamedTuple):
    """What retrieval needs, made when first used: weights arrive after __init__ when a saved model is loaded."""

    tap: Tap
    knn: KNN
    store: Store


class KNNLMForCausalLM(transformers.PreTrainedModel, transformers.GenerationMixin):  # type: ignore[misc]
    """A base LM (`base`) mixed with a store. Reading only: it is not trained. Safe for concurrent calls."""

    config_class = KNNLMConfig
    main_input_name = "input_ids"
    accepts_loss_kwargs = False
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(self, config: KNNLMConfig, base: Any = None) -> None:
        super().__init__(config)
        check_lambda(config.lam)
        self.base = transformers.AutoModelForCausalLM.from_config(config.base_config) if base is None else base
        self._parts: _Parts | None = None
        self._lock = threading.Lock()
        parameters = inspect.signature(self.base.forward).parameters
        self._takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._takes = frozenset(parameters)
        for name in _AS_THE_BASE:
            setattr(self, name, getattr(self.base, name))
        self.post_init()
        self.generation_config = self.base.generation_config
        self.eval().requires_grad_(False)

    @classmethod
    def from_parts(cls, lm: LanguageModel, store: Store, tuned: Tuned) -> "KNNLMForCausalLM":
        """The kNN-LM of an open model and an open store."""
        store.require(lm)
        what = tuned.retrieval
        config = KNNLMConfig(
            base_config=copy.deepcopy(lm.model.config),  # a new configuration resets its parts' kind of attention
            attn_implementation=lm.model.config._attn_implementation,
            store=str(store.path.resolve()),
            store_fingerprint=store.fingerprint,
            knn={
                "key": what.key, "metric": what.metric, "mask": what.mask, "score": what.score, "k": what.k,
                "lambda": tuned.lam, "temperature": tuned.temperature,
            },
        )  # fmt: skip
        model = cls(config, lm.model)
        model._parts = model._open(store)
        return model

    @property
    def store(self) -> Store:
        """The store that votes."""
        return self._ready().store

    def init_weights(self) -> None:
        """The base LM has its weights: nothing is made up here."""
        self.tie_weights()

    def get_input_embeddings(self) -> Any:
        """The base LM's."""
        return self.base.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """The base LM's; its logits are the base LM's too, not log P."""
        return self.base.get_output_embeddings()

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        """As the base LM does."""
        return self.base.prepare_inputs_for_generation(*args, **kwargs)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """log P at the positions to keep; the loss is that of the mixture."""
        kwargs.pop("return_dict", None)
        given = {
            "input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids,
            "past_key_values": past_key_values, "inputs_embeds": inputs_embeds, "use_cache": use_cache, **kwargs,
        }  # fmt: skip
        given = {name: v for name, v in given.items() if v is not None and (self._takes_any or name in self._takes)}
        parts = self._ready()
        slices = "logits_to_keep" in self._takes
        if slices:
            given["logits_to_keep"] = logits_to_keep
        with parts.tap.watch() as seen:
            out = self.base(**given, return_dict=True)
        kept = _kept(logits_to_keep)
        logits = (out.logits if slices else out.logits[:, kept]).float().log_softmax(-1)
        if self.config.lam > 0:
            if parts.knn.key == "att":
                states = seen.att(len(logits))[:, kept]
            else:
                states = seen.ffn if slices else seen.ffn[:, kept]
            self._mix(parts.knn, logits, states)
        loss = None if labels is None else _loss(logits, labels, logits_to_keep)
        return CausalLMOutputWithPast(
            loss=loss, logits=logits, past_key_values=out.get("past_key_values"),
            hidden_states=out.get("hidden_states"), attentions=out.get("attentions"),
        )  # fmt: skip

    @torch.inference_mode()
    def look(self, tokens: torch.Tensor, start: int = 1) -> Look:
        """What the model thinks of tokens[start:] of one sequence (T,), each after those before it."""
        if not 1 <= start < len(tokens):
            raise UsageError(f"cannot look at {len(tokens)} tokens from {start} on: the first is not predicted")
        parts = self._ready()
        states = parts.tap.read(tokens[None, :-1].to(parts.tap.device))
        wanted = tokens[start:, None].cpu()
        lm = parts.tap.logits(states.ffn[0, start - 1 :]).float().log_softmax(-1).cpu().gather(1, wanted)[:, 0]
        near = parts.knn.near(states.of(parts.knn.key)[0, start - 1 :])
        votes = vocabulary_logprobs(near, parts.knn.tokens, parts.knn.vocab_size, parts.knn.tau)
        knn = votes.gather(1, wanted)[:, 0]
        mixed = mix_vocabulary(lm.double(), knn.double(), self.config.lam)
        return Look(lm.double().numpy(), knn.double().numpy(), mixed.numpy(), near)

    def _mix(self, knn: KNN, logits: torch.Tensor, states: torch.Tensor) -> None:
        """Turn log p_LM (B, T, V) into log P in place, some positions at a time."""
        flat, queries = logits.view(-1, logits.shape[-1]), states.reshape(-1, states.shape[-1])
        for start in range(0, len(flat), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            flat[some] = mix_vocabulary(flat[some], knn.logprobs(queries[some]).to(flat.device), self.config.lam)

    def _ready(self) -> _Parts:
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    self._parts = self._open(self.config.open_store())
        return self._parts

    def _open(self, store: Store) -> _Parts:
        store.require_weights(model_fingerprint(self.base), self.config.store)
        what = self.config.retrieval
        keys = ["att", "ffn"] if what.key == "att" else ["ffn"]
        tap = Tap(self.base, keys, store.meta["att_module"])
        return _Parts(tap, open_knn(store, what, self.config.tau), store)


def _kept(logits_to_keep: int | torch.Tensor) -> Any:
    """The positions to keep, as an index: the last few, all (0), or those listed."""
    return slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) and logits_to_keep else \
        slice(None) if isinstance(logits_to_keep, int) else logits_to_keep  # fmt: skip


def _loss(logits: torch.Tensor, labels: torch.Tensor, logits_to_keep: int | torch.Tensor) -> torch.Tensor:
    """Mean -log P of each label after the first; -100 does not count."""
    if not (isinstance(logits_to_keep, int) and logits_to_keep == 0):
        raise UsageError("a loss needs every position: leave logits_to_keep out where there are labels")
    predicted = logits[:, :-1].reshape(-1, logits.shape[-1])
    return torch.nn.functional.nll_loss(predicted, labels[:, 1:].reshape(-1).to(logits.device))


transformers.AutoConfig.register("knnlm", KNNLMConfig, exist_ok=True)
transformers.AutoModelForCausalLM.register(KNNLMConfig, KNNLMForCausalLM, exist_ok=True)
