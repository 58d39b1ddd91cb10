"""KNNLMForCausalLM: a causal LM whose logits are log P, the mixture's log-probabilities.

    logits = log( (1-λ)·softmax(W_sm·h_sm) + λ·p(· | h_ds) )          p: any component

log_softmax(log P) = log P, so greedy search, sampling, beams, assisted generation, continuous
batching, pipelines, Trainer.evaluate and lm-eval use it as any other model; a sampling temperature
acts on P. The probabilities come from the base LM and the component; here they are only mixed.
"""

import copy
import inspect
import threading
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import transformers

from knnlm.components import Component, component_checksum, open_component
from knnlm.datastore import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation import TunedSettings, mix
from knnlm.hidden_states import StateReader, target_logprobs
from knnlm.huggingface.config import KNNLMConfig
from knnlm.huggingface.mixing import Parts, mix_in_place
from knnlm.huggingface.steps import Steps, TokenScores
from knnlm.models import LanguageModel, model_fingerprint
from knnlm.ranges import check_lambda

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


class KNNLMForCausalLM(transformers.PreTrainedModel, transformers.GenerationMixin):  # type: ignore[misc]
    """A base LM (`base`) mixed with a component. Not trainable. Safe for concurrent calls.

    Example:
        >>> KNNLM("store").to_transformers().save_pretrained("knnlm")      # doctest: +SKIP
        >>> model = KNNLMForCausalLM.from_pretrained("knnlm")              # doctest: +SKIP
        >>> model(input_ids=torch.tensor([[5, 17, 4]])).logits  # log P    # doctest: +SKIP
    """

    config_class = KNNLMConfig
    main_input_name = "input_ids"
    accepts_loss_kwargs = False
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(self, config: KNNLMConfig, base: Any = None) -> None:
        super().__init__(config)
        check_lambda(config.tuned.lam)
        if base is None:
            base = transformers.AutoModelForCausalLM.from_config(config.base_config)
        self.base = base
        self._parts: Parts | None = None
        self._steps: Steps | None = None
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
    def from_settings(
        cls, lm: LanguageModel, entries: Entries, settings: TunedSettings
    ) -> "KNNLMForCausalLM":
        """The kNN-LM of an open model and an open datastore, with any component.

        Args:
            lm: The base LM that the datastore was built with.
            entries: The datastore.
            settings: Which component, its retrieval, λ and τ.

        Returns:
            The model, ready to generate; it shares the weights of `lm`.

        Raises:
            UsageError: λ or τ is out of range.
            KnnlmError: Model and datastore do not belong together, or the model keeps a state of
                its own that generation does not know.
        """
        entries.require_model(lm)
        if lm.model._is_stateful:
            raise KnnlmError(
                f"{type(lm.model).__name__} keeps a state of its own instead of a cache, which "
                "generation with a datastore does not know: use another model to generate"
            )
        config = KNNLMConfig(
            # a new configuration resets its parts' kind of attention
            base_config=copy.deepcopy(lm.model.config),
            attn_implementation=lm.model.config._attn_implementation,
            datastore=str(entries.path.resolve()),
            datastore_fingerprint=entries.fingerprint,
            settings=settings.as_json(),
            checksum=component_checksum(entries, settings.component, settings.retrieval),
        )
        model = cls(config, lm.model)
        model._parts = model._open(entries)
        return model

    @property
    def entries(self) -> Entries:
        """The datastore that is retrieved from."""
        return self._ready().entries

    @property
    def component(self) -> Component:
        """What is mixed with the base LM."""
        return self._ready().component

    def with_lambda(self, lam: float) -> "KNNLMForCausalLM":
        """The same model at another λ, sharing everything; at 0 its logits are log p_LM.

        Args:
            lam: The interpolation weight λ, 0 to 1.

        Returns:
            A new model; this one stays as it is.

        Raises:
            UsageError: λ is out of range.
        """
        config = copy.deepcopy(self.config)
        config.settings["lambda"] = lam
        other = type(self)(config, self.base)
        other._parts = replace(self._ready(), lam=lam)
        return other

    def following(self, steps: Steps | None) -> "KNNLMForCausalLM":
        """The same model for one call of generate() with one sequence, whose steps are kept.

        Args:
            steps: Where they are kept; None: nowhere.

        Returns:
            A new model that shares everything; this one stays as it is.
        """
        other = self.with_lambda(self.config.tuned.lam)
        other._steps = steps
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot be copied; a copy opens the datastore again."""
        return {**super().__getstate__(), "_parts": None, "_steps": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._lock = threading.Lock()

    def init_weights(self) -> None:
        """Nothing is made up here: the base LM has its weights."""
        self.tie_weights()

    def get_input_embeddings(self) -> Any:
        """The token embeddings of the base LM."""
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
        """log P at the positions to keep; the loss is that of the mixture.

        Args:
            input_ids: Tokens (B, T).
            attention_mask: As the base LM takes it.
            position_ids: As the base LM takes them.
            past_key_values: The base LM's cache.
            inputs_embeds: Token embeddings (B, T, D) instead of `input_ids`.
            labels: Tokens (B, T) that give a loss; -100 does not count.
            use_cache: Whether the base LM returns its cache.
            logits_to_keep: How many of the last positions to keep, 0 for all; or which.
            **kwargs: What else the base LM takes; the rest is left out.

        Returns:
            The base LM's output with log P as its logits, or a tuple if `return_dict` is False.

        Raises:
            UsageError: `labels` and `logits_to_keep` are given together.
            KnnlmError: The datastore has changed since the model was saved, or its dtype has.
        """
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
            name: value
            for name, value in given.items()
            if value is not None and (self._takes_any or name in self._takes)
        }
        parts, steps = self._ready(), self._steps
        slices = "logits_to_keep" in self._takes
        if slices:
            given["logits_to_keep"] = logits_to_keep
        with parts.reader.capture() as captured:
            out = self.base(**given, return_dict=True)
        kept = _kept(logits_to_keep)
        logits = (out.logits if slices else out.logits[:, kept]).float().log_softmax(-1)
        if parts.lam > 0:
            states = {
                "att": lambda: captured.att(len(logits))[:, kept],
                "ffn": lambda: captured.ffn if slices else captured.ffn[:, kept],
            }
            read = [states[key]() for key in parts.component.keys]
            if steps is not None and input_ids is not None:
                steps.begin(int(input_ids[0, -1]))
            mix_in_place(parts, logits, torch.cat(read, dim=-1), steps)
        loss = None if labels is None else _loss(logits, labels, logits_to_keep)
        # whatever else the base LM returns stays
        outputs = type(out)(**{**out, "loss": loss, "logits": logits})
        return outputs.to_tuple() if as_tuple else outputs

    @torch.inference_mode()
    def score_tokens(self, tokens: torch.Tensor, start: int = 1) -> TokenScores:
        """What the model gives to each of tokens[start:] of a sequence (T,).

        Args:
            tokens: The sequence.
            start: The first token to score; 1 or more, because the first is not predicted.

        Returns:
            log p of each token under the base LM, the component and the mixture, and its neighbors.

        Raises:
            UsageError: There is no token to score, or there are more than the model can read.
            KnnlmError: The datastore has changed since the model was saved, or its dtype has.
        """
        if not 1 <= start < len(tokens):
            raise UsageError(
                f"cannot score {len(tokens)} tokens from {start} on: the first is not predicted"
            )
        longest = self.config.max_position_embeddings
        if longest is not None and len(tokens) - 1 > longest:
            raise UsageError(
                f"the text has {len(tokens):,} tokens but the model reads at most {longest:,}: "
                "shorten it"
            )
        parts = self._ready()
        states = parts.reader.read(tokens[None, :-1].to(parts.reader.device))
        targets = tokens[start:].to(parts.reader.device)
        logs = target_logprobs(parts.reader.model, states.ffn[0, start - 1 :], targets, [1.0])
        lm = logs[0].cpu().numpy().astype(np.float64)
        read = [states.of(key)[0, start - 1 :] for key in parts.component.keys]
        asked = parts.rounded(torch.cat(read, dim=-1))
        scored = parts.component.score_tokens(asked, targets)
        mixed = mix(lm, scored.logprobs, parts.lam)
        return TokenScores(lm, scored.logprobs, mixed, scored.neighbors)

    def _ready(self) -> Parts:
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    entries = self.config.open_datastore()
                    self._check_saved(entries)
                    self._parts = self._open(entries)
        if self.base.dtype != self._parts.dtype:
            raise KnnlmError(
                f"the model was turned into {self.base.dtype} after it was opened, but its "
                f"datastore holds hidden states of {self._parts.dtype}: open it again"
            )
        return self._parts

    def _check_saved(self, entries: Entries) -> None:
        """Refuse weights, an index or a component that a saved model did not have."""
        built = str(entries.meta["model"]["precision"])
        if str(self.base.dtype) != f"torch.{built}":
            raise KnnlmError(
                f"{entries.path} was built in {built} but this model is in {self.base.dtype}: open "
                f"it with dtype={built}"
            )
        name = self.name_or_path or type(self.base).__name__
        entries.require_weights(model_fingerprint(self.base), name)
        self.config.check_component(entries)

    def _open(self, entries: Entries) -> Parts:
        # from_pretrained replaces the parameters of __init__ by others
        self.requires_grad_(False)
        settings = self.config.tuned
        device = self.base.get_input_embeddings().weight.device
        component = open_component(
            entries, settings.component, settings.retrieval, settings.tau
        ).to(device)
        component.prepare()
        keys = ["att", "ffn"] if "att" in component.keys else ["ffn"]
        reader = StateReader(self.base, keys, entries.meta["att_module"])
        # when the last model that shares the component is gone
        weakref.finalize(component, reader.close)
        return Parts(reader, component, settings.lam, entries, self.base.dtype)


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
