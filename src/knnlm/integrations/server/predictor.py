"""The model as the server runs it: one forward pass for many sequences, each with its own λ, τ, k.

log P = log( (1-λ)·p_LM + λ·p )        p: neighbors or a component of the datastore
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import torch

from knnlm.api import KNNLM
from knnlm.components import (
    KNN_NAME,
    Component,
    component_checksum,
    list_components,
    open_component,
)
from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.evaluation import TunedSettings, choose_settings, mix_vocabulary
from knnlm.hidden_states import StateReader
from knnlm.ranges import check_lambda, check_temperature
from knnlm.search import Neighbors
from knnlm.text import cut_windows, prompt_encoder

ROWS_AT_ONCE = 64
"""Positions of a prompt whose whole distributions are in memory at once."""


@dataclass(frozen=True)
class Mixing:
    """What one request mixes with the LM."""

    component: str
    lam: float
    tau: float
    k: int | None
    """None where the component retrieves nothing."""


class Prediction(NamedTuple):
    """log p_LM over the vocabulary (B, V), and the hidden states (B, D) of each key."""

    lm: torch.Tensor
    states: dict[str, torch.Tensor]

    def rows(self, which: slice | list[int]) -> "Prediction":
        """Some of the positions."""
        return Prediction(self.lm[which], {key: s[which] for key, s in self.states.items()})


class Mixed(NamedTuple):
    """log P (B, V), log p of the component, and the neighbors if it retrieves."""

    logs: torch.Tensor
    component: torch.Tensor | None
    """None at λ = 0, where nothing is asked."""
    neighbors: Neighbors | None


class Predictor:
    """A kNN-LM whose settings are given with each call. Not safe for concurrent calls: the engine
    has one thread for it.

    Args:
        knnlm: The model; its settings are the defaults, and its k is the most that is served.
    """

    def __init__(self, knnlm: KNNLM) -> None:
        self.entries, self.tokenizer = knnlm.store.entries, knnlm.tokenizer
        self.encode, self.lm = prompt_encoder(self.tokenizer), knnlm.store.model
        self.settings = knnlm.settings
        knnlm.to_transformers()  # refuses a model that cannot generate with a datastore
        keys = tuple(self.entries.keys)
        read = ("att", "ffn") if "att" in keys else ("ffn",)
        self.reader = StateReader(self.lm.model, read, self.entries.meta["att_module"])
        self.dtype = getattr(torch, self.entries.dtype)
        self._keeps_logits = "logits_to_keep" in signature(self.lm.model.forward).parameters
        self._components: dict[str, Component] = {}
        self._lock = threading.Lock()
        self._component(self.settings.component)

    @property
    def default(self) -> Mixing:
        """The datastore's own settings."""
        return _mixing(self.settings)

    @property
    def longest(self) -> int | None:
        """How many tokens the model reads; None if it has no limit."""
        return self.lm.positions

    @property
    def metric(self) -> str | None:
        """Which similarity the scores of neighbors are; None if nothing is retrieved."""
        return None if self.settings.retrieval is None else self.settings.retrieval.metric

    @property
    def rescores(self) -> bool:
        """Whether the neighbors that an index finds are scored again."""
        retrieval = self.settings.retrieval
        return retrieval is not None and not retrieval.exact and retrieval.score == "exact"

    @property
    def components(self) -> list[str]:
        """The components that may be named: the one that is served, and others that are tuned."""
        others = {KNN_NAME, *list_components(self.entries)} - {self.settings.component}
        return sorted([self.settings.component, *filter(self._is_usable, others)])

    def mixing(
        self,
        lam: float | None = None,
        tau: float | None = None,
        k: int | None = None,
        component: str | None = None,
    ) -> Mixing:
        """The settings of a request: the datastore's, with what was given instead.

        Raises:
            UsageError: Something is unknown or out of range.
        """
        chosen = self.default
        if component is not None and component != chosen.component:
            chosen = self._other_default(component)
        if lam is not None:
            check_lambda(lam)
            chosen = replace(chosen, lam=float(lam))
        if tau is not None:
            check_temperature(tau)
            chosen = replace(chosen, tau=float(tau))
        if k is not None:
            if chosen.k is None:
                raise UsageError(f"`k` belongs to a search, and {chosen.component} has none")
            most = self.default.k if self.default.k is not None else chosen.k
            if not 1 <= k <= most:
                raise UsageError(f"`k` {k} is out of range: choose 1 to {most}")
            chosen = replace(chosen, k=k)
        return chosen

    @torch.inference_mode()
    def forward(self, **inputs: Any) -> tuple[Prediction, Any]:
        """Run the LM, and return what it predicts after the last token of each row, and its cache.

        Args:
            **inputs: As the base LM takes them, `input_ids` (B, T) among them.
        """
        if self._keeps_logits:
            inputs["logits_to_keep"] = 1
        with self.reader.capture() as captured:
            out = self.lm.model(**inputs, use_cache=True, return_dict=True)
        states = {"ffn": captured.ffn[:, -1]}
        if "att" in self.reader.keys:
            states["att"] = captured.att(len(inputs["input_ids"]))[:, -1]
        return Prediction(out.logits[:, -1].float().log_softmax(-1), states), out.past_key_values

    @torch.inference_mode()
    def read(self, tokens: Sequence[int]) -> Iterator[Prediction]:
        """What the LM predicts after each token of a text.

        Some positions come at a time: the whole distributions of a long text do not fit in memory.
        A text longer than the model reads is cut into windows, as stored documents are.
        """
        length, longest = len(tokens), self.longest
        window, stride = length, length
        if longest is not None and length > longest:
            window, stride = self.entries.meta["window"], self.entries.meta["stride"]
        for cut in cut_windows(length + 1, window, stride):
            ids = torch.tensor([list(tokens[cut.start : cut.stop])], device=self.reader.device)
            read = self.reader.read(ids)._asdict()
            first = cut.first - 1 - cut.start
            states = {key: s[0, first:] for key, s in read.items() if s is not None}
            for start in range(0, cut.scored, ROWS_AT_ONCE):
                rows = slice(start, start + ROWS_AT_ONCE)
                lm = self.reader.logits(states["ffn"][rows]).float().log_softmax(-1)
                yield Prediction(lm, {key: state[rows] for key, state in states.items()})

    @torch.inference_mode()
    def mixed(self, prediction: Prediction, mixing: Mixing, near: Neighbors | None = None) -> Mixed:
        """log P of some positions under one setting.

        Args:
            prediction: What the LM predicts there.
            mixing: The setting.
            near: The neighbors, if `retrieve` found them already.
        """
        if mixing.lam == 0:
            return Mixed(prediction.lm, None, None)
        component = self._component(mixing.component).at_temperature(mixing.tau)
        other, near = component.predict(self._asked(component, prediction), mixing.k, near)
        other = other.to(prediction.lm.device)
        return Mixed(mix_vocabulary(prediction.lm, other, mixing.lam), other, near)

    @torch.inference_mode()
    def mixed_rows(
        self, prediction: Prediction, mixings: Sequence[Mixing]
    ) -> list[Mixed | Exception]:
        """log P of each row under its own setting; rows that agree in it are asked together, and
        where that fails they have the error."""
        groups: dict[Mixing, list[int]] = {}
        for row, mixing in enumerate(mixings):
            groups.setdefault(mixing, []).append(row)
        result: dict[int, Mixed | Exception] = {}
        for mixing, rows in groups.items():
            whole = len(rows) == len(mixings)
            try:
                mixed = self.mixed(prediction if whole else prediction.rows(rows), mixing)
            except Exception as error:  # rows with other settings go on
                result.update(dict.fromkeys(rows, error))
                continue
            for i, row in enumerate(rows):
                result[row] = Mixed(
                    mixed.logs[i : i + 1],
                    None if mixed.component is None else mixed.component[i : i + 1],
                    None if mixed.neighbors is None else mixed.neighbors.of(i),
                )
        return [result[row] for row in range(len(mixings))]

    def retrieve(self, prediction: Prediction, mixing: Mixing, k: int) -> Neighbors | None:
        """The k nearest entries of each position, more than vote if asked for."""
        component = self._component(mixing.component)
        return component.retrieve(self._asked(component, prediction), k)

    def _asked(self, component: Component, prediction: Prediction) -> torch.Tensor:
        """Hidden states as the component takes them, rounded as the datastore's are."""
        read = [prediction.states[key] for key in component.keys]
        return torch.cat(read, dim=-1).to(self.dtype).float()

    def close(self) -> None:
        """Remove the hooks from the model."""
        self.reader.close()

    def _component(self, name: str) -> Component:
        with self._lock:
            if name not in self._components:
                settings = self.settings if name == self.settings.component else self._tuned(name)
                opened = open_component(
                    self.entries, settings.component, settings.retrieval, settings.tau
                ).to(self.reader.device)
                opened.prepare()
                self._components[name] = opened
            return self._components[name]

    def _other_default(self, component: str) -> Mixing:
        if component not in (known := self.components):
            raise unknown("component", component, known)
        return _mixing(self._tuned(component))

    def _is_usable(self, component: str) -> bool:
        """Whether it is tuned, and still there."""
        try:
            component_checksum(self.entries, component, self._tuned(component).retrieval)
        except KnnlmError:
            return False
        return True

    def _tuned(self, component: str) -> TunedSettings:
        tuned = choose_settings(self.entries, component)
        if tuned is None:
            raise UsageError(f"component {component} is not tuned: run `KNNLM.tune` first")
        return tuned


def _mixing(settings: TunedSettings) -> Mixing:
    k = None if settings.retrieval is None else settings.retrieval.k
    return Mixing(settings.component, settings.lam, settings.tau, k)
