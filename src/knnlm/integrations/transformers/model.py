"""KNNLMForCausalLM: a causal LM whose logits are log P, the mixture's log-probabilities.

    logits = log( (1-λ)·softmax(W_sm·h_sm) + λ·p_kNN(· | h_ds) )          or a component's p in the place of p_kNN

log_softmax(log P) = log P, so greedy search, sampling, beams, assisted generation, continuous
batching, pipelines, Trainer.evaluate and lm-eval use it as any other model; a sampling temperature
acts on P. Knows no probabilities of its own: the base LM, components/ and mixture.py give them."""

import copy
import inspect
import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from knnlm.components.knn import KNN, open_knn, weights
from knnlm.components.mixture import Mixture
from knnlm.components.saving import Component, on_device
from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation.mixing import check_lambda, mix, mix_vocabulary
from knnlm.evaluation.tuning import TunedSettings
from knnlm.hidden_states import StateReader
from knnlm.hidden_states.forward import lm_logprobs
from knnlm.integrations.transformers.config import KNNLMConfig
from knnlm.models.load import LanguageModel, model_fingerprint
from knnlm.search.neighbors import Neighbors
from knnlm.search.retrieval import check_index
from knnlm.training.distillation import Distilled, load_distilled

_ROWS_AT_ONCE = 256
# What transformers asks a model about itself: kinds of attention and of cache, and how inputs are
# made for a step.
_AS_THE_BASE = (
    "_is_stateful",
    "_supports_sdpa",
    "_supports_flash_attn",
    "_supports_flex_attn",
    "_supports_attention_backend",
    "_can_set_attn_implementation",
    "_supports_default_dynamic_cache",
    "prepare_inputs_for_generation",
)


class Look(NamedTuple):
    """What the model thought of given tokens: natural log-probabilities, the neighbours of each and
    their votes (none where a component is used in their place)."""

    lm: NDArray[np.float64]
    knn: NDArray[np.float64]
    mixed: NDArray[np.float64]
    near: Neighbors
    log_weights: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Parts:
    """What retrieval needs, made when first used: weights arrive after __init__ when a saved model
    is loaded."""

    reader: StateReader
    knn: KNN | Component
    lam: float
    store: Entries
    dtype: torch.dtype

    @property
    def keys(self) -> tuple[str, ...]:
        """The states that are read, one after the other."""
        return (self.knn.key,) if isinstance(self.knn, KNN) else self.knn.keys

    def rounded(self, states: torch.Tensor) -> torch.Tensor:
        """States as the store holds them, so that evaluation and generation ask the same."""
        return states.to(getattr(torch, self.store.dtype)).float()


class KNNLMForCausalLM(transformers.PreTrainedModel, transformers.GenerationMixin):  # type: ignore[misc]
    """A base LM (`base`) mixed with a store. Reading only: it is not trained. Safe for concurrent
    calls."""

    config_class = KNNLMConfig
    main_input_name = "input_ids"
    accepts_loss_kwargs = False
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(self, config: KNNLMConfig, base: Any = None) -> None:
        super().__init__(config)
        check_lambda(config.lam)
        self.base = (
            transformers.AutoModelForCausalLM.from_config(config.base_config)
            if base is None
            else base
        )
        self._parts: _Parts | None = None
        self._lock = threading.Lock()
        parameters = inspect.signature(self.base.forward).parameters
        self._takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._takes = frozenset(parameters)
        for name in _AS_THE_BASE:
            setattr(self, name, getattr(self.base, name))
        self.post_init()
        self.generation_config = copy.deepcopy(self.base.generation_config)
        self.eval().requires_grad_(False)

    @classmethod
    def from_parts(
        cls, lm: LanguageModel, store: Entries, tuned: TunedSettings
    ) -> "KNNLMForCausalLM":
        """The kNN-LM of an open model and an open store."""
        what = tuned.retrieval
        index = check_index(store, what)
        settings = {
            **what.as_json(),
            "lambda": tuned.lam,
            "temperature": tuned.temperature,
            "index": None if index is None else index["xxh3"],
        }
        model = cls(_config(lm, store, settings), lm.model)
        model._parts = model._open(store)
        return model

    @classmethod
    def from_component(
        cls, lm: LanguageModel, store: Entries, distilled: Distilled
    ) -> "KNNLMForCausalLM":
        """The same with a component of the store in the place of the search."""
        settings = {
            "component": distilled.name,
            "xxh3": distilled.about["xxh3"],
            "lambda": distilled.lam,
            "temperature": distilled.component.tau,
        }
        model = cls(_config(lm, store, settings), lm.model)
        model._parts = model._open(store)
        return model

    @property
    def store(self) -> Entries:
        """The store that votes."""
        return self._ready().store

    def at(self, lam: float) -> "KNNLMForCausalLM":
        """The same model at another λ, sharing everything; at 0 it is the base LM, with logits that
        are log p_LM."""
        config = copy.deepcopy(self.config)
        config.knn["lambda"] = lam
        found = type(self)(config, self.base)
        found._parts = replace(self._ready(), lam=lam)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot be copied; a copy opens the store again."""
        return {**super().__getstate__(), "_parts": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a copy."""
        super().__setstate__(state)
        self._lock = threading.Lock()

    def init_weights(self) -> None:
        """The base LM has its weights: nothing is made up here."""
        self.tie_weights()

    def get_input_embeddings(self) -> Any:
        """The base LM's."""
        return self.base.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """The base LM's; its logits are the base LM's too, not log P."""
        return self.base.get_output_embeddings()

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
    ) -> Any:
        """log P at the positions to keep; the loss is that of the mixture."""
        as_tuple = kwargs.pop("return_dict", None) is False
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "past_key_values": past_key_values,
            "inputs_embeds": inputs_embeds,
            "use_cache": use_cache,
            **kwargs,
        }
        given = {
            name: v
            for name, v in given.items()
            if v is not None and (self._takes_any or name in self._takes)
        }
        parts = self._ready()
        slices = "logits_to_keep" in self._takes
        if slices:
            given["logits_to_keep"] = logits_to_keep
        with parts.reader.capture() as capture:
            out = self.base(**given, return_dict=True)
        kept = _kept(logits_to_keep)
        logits = (out.logits if slices else out.logits[:, kept]).float().log_softmax(-1)
        if parts.lam > 0:
            read = [
                capture.att(len(logits))[:, kept]
                if key == "att"
                else capture.ffn
                if slices
                else capture.ffn[:, kept]
                for key in parts.keys
            ]
            _mix(parts, logits, torch.cat(read, dim=-1))
        loss = None if labels is None else _loss(logits, labels, logits_to_keep)
        found = type(out)(
            **{**out, "loss": loss, "logits": logits}
        )  # whatever else the base LM returns stays
        return found.to_tuple() if as_tuple else found

    @torch.inference_mode()
    def look(self, tokens: torch.Tensor, start: int = 1) -> Look:
        """What the model thinks of tokens[start:] of one sequence (T,), each after those before
        it."""
        if not 1 <= start < len(tokens):
            raise UsageError(
                f"cannot look at {len(tokens)} tokens from {start} on: the first is not predicted"
            )
        parts = self._ready()
        states = parts.reader.read(tokens[None, :-1].to(parts.reader.device))
        wanted = tokens[start:].to(parts.reader.device)
        lm = lm_logprobs(parts.reader, states.ffn[0, start - 1 :], wanted)
        read = torch.cat([states.of(key)[0, start - 1 :] for key in parts.keys], dim=-1)
        if isinstance(parts.knn, KNN):
            near = parts.knn.near(read)
            knn = parts.knn.target_logprobs(near, wanted.cpu().numpy())
            votes = weights(near.scores, parts.knn.tau)
        else:
            near = Neighbors(
                np.empty((len(wanted), 0), np.int64), np.empty((len(wanted), 0), np.float32)
            )
            logs = parts.knn.logprobs(parts.rounded(read))
            knn = logs.gather(1, wanted[:, None])[:, 0].double().cpu().numpy()
            votes = near.scores
        return Look(lm.astype(np.float64), knn, mix(lm, knn, parts.lam), near, votes)

    def _ready(self) -> _Parts:
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    store = self.config.open_entries()
                    self._check(store)
                    self._parts = self._open(store)
        if self.base.dtype != self._parts.dtype:
            raise KnnlmError(
                f"the model was turned into {self.base.dtype} after it was opened, but its store "
                "holds states of "
                f"{self._parts.dtype}: open it anew"
            )
        return self._parts

    def _check(self, store: Entries) -> None:
        """Refuse weights or an index that a saved model did not have; from_parts was given ones
        that are checked."""
        built = str(store.meta["model"]["precision"])
        if str(self.base.dtype) != f"torch.{built}":
            raise KnnlmError(
                f"{store.path} was built in {built} but this model is in {self.base.dtype}: open "
                f"it with dtype={built}"
            )
        store.require_weights(
            model_fingerprint(self.base), self.name_or_path or type(self.base).__name__
        )
        self.config.check_index(store)

    def _open(self, store: Entries) -> _Parts:
        self.requires_grad_(
            False
        )  # from_pretrained puts other parameters in the place of those of __init__
        knn: KNN | Component
        if self.config.component is None:
            knn = open_knn(store, self.config.retrieval, self.config.tau)
            keys: tuple[str, ...] = (knn.key,)
            shared: Any = knn.search
        else:
            device = self.base.get_input_embeddings().weight.device
            knn = on_device(load_distilled(store, self.config.component).component, device)
            keys, first = knn.keys, knn.parts[0] if isinstance(knn, Mixture) else knn
            shared = first[1]  # a tensor; tuples cannot be watched
        reader = StateReader(
            self.base, ["att", "ffn"] if "att" in keys else ["ffn"], store.meta["att_module"]
        )
        weakref.finalize(shared, reader.close)  # when the last model that shares them is gone
        return _Parts(reader, knn, self.config.lam, store, self.base.dtype)


def _config(lm: LanguageModel, store: Entries, settings: dict[str, Any]) -> KNNLMConfig:
    """The configuration of a model and a store that fit together."""
    store.require_model(lm)
    if lm.model._is_stateful:
        raise KnnlmError(
            f"{type(lm.model).__name__} keeps a state of its own instead of a cache, which "
            "generation with a store "
            "does not know: use another model to generate"
        )
    return KNNLMConfig(
        base_config=copy.deepcopy(
            lm.model.config
        ),  # a new configuration resets its parts' kind of attention
        attn_implementation=lm.model.config._attn_implementation,
        store=str(store.path.resolve()),
        store_fingerprint=store.fingerprint,
        knn=settings,
    )


def _mix(parts: _Parts, logits: torch.Tensor, states: torch.Tensor) -> None:
    """Turn log p_LM (B, T, V) into log P in place, some positions at a time."""
    flat, queries = logits.view(-1, logits.shape[-1]), states.reshape(-1, states.shape[-1])
    for start in range(0, len(flat), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        asked = queries[some] if isinstance(parts.knn, KNN) else parts.rounded(queries[some])
        flat[some] = mix_vocabulary(
            flat[some], parts.knn.logprobs(asked).to(flat.device), parts.lam
        )


def _kept(logits_to_keep: int | torch.Tensor) -> Any:
    """The positions to keep, as an index: the last few, all (0), or those listed."""
    if not isinstance(logits_to_keep, int):
        return logits_to_keep
    return slice(-logits_to_keep or None, None)


def _loss(
    logits: torch.Tensor, labels: torch.Tensor, logits_to_keep: int | torch.Tensor
) -> torch.Tensor:
    """Mean -log P of each label after the first; -100 does not count."""
    if not (isinstance(logits_to_keep, int) and logits_to_keep == 0):
        raise UsageError(
            "a loss needs every position: leave logits_to_keep out where there are labels"
        )
    predicted = logits[:, :-1].reshape(-1, logits.shape[-1])
    return torch.nn.functional.nll_loss(predicted, labels[:, 1:].reshape(-1).to(logits.device))


transformers.AutoConfig.register("knnlm", KNNLMConfig, exist_ok=True)
transformers.AutoModelForCausalLM.register(KNNLMConfig, KNNLMForCausalLM, exist_ok=True)
