"""`KNNLM`: a base LM and its datastore as one model that is tuned, evaluated and generated with."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from knnlm import defaults
from knnlm.api.datastore import Datastore
from knnlm.api.evaluation_texts import allowed_overlap, read_text
from knnlm.api.explain import explain_tokens
from knnlm.api.results import EvaluationResult, Explanation, Generation
from knnlm.api.settings import retrieval_of, retrieval_wishes, settings_of
from knnlm.argument_types import check_types
from knnlm.components import (
    KNN_NAME,
    Component,
    load_stored,
    open_component,
)
from knnlm.datastore import Entries
from knnlm.errors import UsageError
from knnlm.evaluation import (
    FEW_TOKENS,
    TunedSettings,
    check_enough,
    control_logprobs,
    evaluate,
    fit_control,
    save_settings,
    tune_best,
)
from knnlm.files import fingerprint
from knnlm.huggingface import Generated, KNNLMForCausalLM, Sampling, generate
from knnlm.models import LanguageModel
from knnlm.progress import log, log_result
from knnlm.ranges import check_k, check_lambda, check_temperature
from knnlm.search import Score
from knnlm.text import Split, Text, encode_prompt, reading_as_text


class KNNLM:
    """A base LM mixed with what its datastore retrieves, or with a component made from it.

    Settings that are not given are the tuned ones of the datastore.

    Args:
        store: A datastore, or its folder.
        component: "knn" for the neighbors, or the name of a component of the datastore.
        key: Which hidden state retrieves: "att" or "ffn".
        metric: "l2" or "ip".
        index: The name of an index of the datastore.
        exact: Whether every entry is compared instead of using an index.
        score: "index" for the index's own scores, "exact" for recomputed ones.
        k: How many neighbors vote.
        lam: The interpolation weight λ.
        tau: The retrieval temperature τ.
        model: The datastore's model, if it has moved.
        device: Where the model runs.

    Raises:
        UsageError: A setting is unknown, out of range, or contradicts another.
        KnnlmError: There is no such datastore, index or hidden state.

    Example:
        >>> model = KNNLM("store").tune("valid.txt")            # doctest: +SKIP
        >>> print(model.evaluate("test.txt"))                   # doctest: +SKIP
        >>> out = model.generate("The with statement")          # doctest: +SKIP
        >>> print(out.text, out.explain())                      # doctest: +SKIP
    """

    @check_types
    def __init__(
        self,
        store: Datastore | str | Path,
        *,
        component: str = KNN_NAME,
        key: str | None = None,
        metric: str | None = None,
        index: str | None = None,
        exact: bool = False,
        score: Score | None = None,
        k: int | None = None,
        lam: float | None = None,
        tau: float | None = None,
        model: str | Path | LanguageModel | None = None,
        device: str | None = None,
    ) -> None:
        opened = store if isinstance(store, Datastore) else Datastore.open(store)
        if model is not None or device is not None:
            opened = Datastore(opened.entries, model, device)
        self.store, self.component_name = opened, component
        if component != KNN_NAME:
            _refuse_retrieval(
                key=key, metric=metric, index=index, exact=exact or None, score=score, k=k
            )
        self._wishes = retrieval_wishes(
            opened.entries, key=key, metric=metric, index=index, exact=exact, score=score
        )
        if k is not None:
            check_k(k)
        if lam is not None:
            check_lambda(lam)
        if tau is not None:
            check_temperature(tau)
        self._k, self._lam, self._tau = k, lam, tau
        self._pinned: TunedSettings | None = None
        self._transformers: KNNLMForCausalLM | None = None
        self._tokenizer: tuple[Any, Any] | None = None  # the model's, and how it reads here

    def __repr__(self) -> str:
        return f"KNNLM({self.store!r}, component {self.component_name!r})"

    @property
    def settings(self) -> TunedSettings:
        """Which component, its retrieval, λ and τ: those given, else those tuned.

        A model that `tune` returned keeps what it was tuned to, whatever is tuned later.

        Raises:
            KnnlmError: If something is neither given nor tuned.
        """
        if self._pinned is not None:
            return self._pinned
        return settings_of(
            self.store.entries,
            self.component_name,
            self._wishes,
            k=self._k,
            lam=self._lam,
            tau=self._tau,
        )

    @property
    def component(self) -> Component:
        """What is mixed with the base LM, at the present settings."""
        settings = self.settings
        return open_component(
            self.store.entries, settings.component, settings.retrieval, settings.tau
        )

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, reading texts as stored documents and prompts are read.

        They begin with bos where there is one, and what spells a special token in them stays text;
        in a chat template only those of the template itself are special.
        """
        own = self.store.model.tokenizer
        if self._tokenizer is None or self._tokenizer[0] is not own:
            self._tokenizer = (own, reading_as_text(own))
        return self._tokenizer[1]

    @check_types
    def tune(
        self,
        text: Text | None = None,
        *,
        k: int | Sequence[int] | None = None,
        taus: Sequence[float] | None = None,
        allow_overlap: bool = False,
    ) -> "KNNLM":
        """Find λ and τ on a validation text and keep them with the datastore.

        The control is fitted too: the calibrated LM, which retrieves nothing
        (`settings.calibrated`).

        Args:
            text: The validation text; a text with splits gives its validation split. By default
                the text that the datastore was built from; a divided folder that has moved is
                recognized and divided as before.
            k: How many neighbors vote; the best of several, if several are given.
            taus: A grid of τ instead of a search.
            allow_overlap: Whether the text may be in the datastore.

        Returns:
            A new model at the tuned settings.

        Raises:
            UsageError: The text is in the datastore or has fewer than 50 tokens, or `k` or `taus`
                is out of range.
            KnnlmError: The model or the text cannot be read.

        Example:
            >>> model = KNNLM("store").tune("valid.txt", k=[64, 1024])    # doctest: +SKIP
            >>> model.settings.lam, model.settings.tau                    # doctest: +SKIP
        """
        candidates = self._candidates(k)
        if taus is not None and not taus:
            raise UsageError("no `taus` given: give at least one")
        for tau in taus or ():
            check_temperature(tau)
        queries = self.store.queries(text, "valid", allow_overlap=allow_overlap)
        check_enough(queries.count, len(queries.documents))
        store, name = self.store, self.component_name
        control = fit_control(store.model.model, store.entries, queries)
        tuned = tune_best(candidates, queries, name=name, taus=taus, control=control).settings
        save_settings(store.entries, tuned)
        log_result(f"tuned {tuned}; {tuned.validation}")
        return self._at(tuned)

    @check_types
    def evaluate(
        self, text: Text | None = None, *, split: Split = "test", allow_overlap: bool = False
    ) -> EvaluationResult:
        """Perplexities of a text with and without the component, with a 95 % interval.

        The calibrated LM is reported beside them, alone and mixed with the component: what it gains
        alone, nothing was retrieved for.

        Args:
            text: The text to report on; it must not be in the datastore. By default the one that
                the datastore was built from; a divided folder that has moved is recognized and
                divided as before.
            split: Which part of a text that has splits: "train", "valid" or "test".
            allow_overlap: Whether the text may be in the datastore.

        Returns:
            Perplexities per token and per word, and the settings; `print` shows them.

        Raises:
            UsageError: The text does not exist, or is in the datastore.
            KnnlmError: The datastore is not tuned and λ or τ is not given, or the model or the text
                cannot be read.

        Example:
            >>> result = KNNLM("store").evaluate("test.txt")    # doctest: +SKIP
            >>> result.base_ppl, result.interp_ppl              # doctest: +SKIP
        """
        settings, store = self.settings, self.store
        control = settings.calibrated
        queries = read_text(
            store.entries,
            text,
            split,
            store.model,
            allow_overlap=allow_overlap,
            softmax_temperature=None if control is None else control.softmax_temperature,
        )
        if settings.text == fingerprint(queries.meta["text"]):
            log.warning("note: λ and τ were tuned on this very text, which flatters the result")
        if queries.count < FEW_TOKENS:
            log.warning(
                f"note: {queries.count:,} tokens are few, so another text may give other numbers"
            )
        calibrated = None
        if control is not None:
            lm, t, u = store.model.model, control.softmax_temperature, control.unigram_share
            calibrated = control_logprobs(lm, store.entries, queries, t, u)
        evaluation = evaluate(self.component, queries, settings, calibrated)
        overlap = (
            allowed_overlap(store.entries, text, split, store.model) if allow_overlap else None
        )
        return EvaluationResult.of(evaluation, settings, overlap)

    @check_types
    def generate(
        self,
        prompt: str,
        *,
        chat: bool = False,
        max_new_tokens: int | None = None,
        sampling: Sampling | None = None,
        compare: bool = False,
        stream: Callable[[str], None] | None = None,
        reuse: int | None = None,
    ) -> Generation:
        """Continue a text.

        Args:
            prompt: The text to continue. What spells a special token in it stays text.
            chat: Whether it is a user's message, to be answered: the model's chat template is put
                around it.
            max_new_tokens: How many tokens to add, at most; 64 unless `sampling` says otherwise.
            sampling: How tokens are chosen; greedily by default.
            compare: Whether the base LM continues it too.
            stream: Called with the prompt (not in a chat), and then with pieces of text as they
                come.
            reuse: While at least so many of the entries that follow the last neighbors go on as the
                text does, they vote and nothing is searched; by default every step searches.

        Returns:
            The new text and its tokens; `explain()` shows why each was chosen.

        Raises:
            UsageError: The prompt is longer than the model can read, `max_new_tokens` or `reuse` is
                out of range, `reuse` has no search or has beams, or the model has no chat template.
            KnnlmError: The datastore is not tuned and λ or τ is not given, or the model cannot
                generate with a datastore.

        Example:
            >>> KNNLM("store").generate("The with", max_new_tokens=20).text    # doctest: +SKIP
        """
        sampling = sampling or Sampling()
        if max_new_tokens is not None:
            sampling = replace(sampling, max_new_tokens=max_new_tokens)
        model, tokenizer = self.to_transformers(), self.tokenizer
        generated = generate(
            model,
            tokenizer,
            prompt,
            sampling,
            chat=chat,
            compare=compare,
            stream=stream,
            reuse=reuse,
        )

        def explainer(new: Generated) -> Any:
            tokens = np.array([*new.prompt_tokens, *new.tokens], np.int64)
            return explain_tokens(model, tokens, len(new.prompt_tokens), tokenizer, new.scores)

        return Generation(prompt, generated, self.settings, explainer, chat)

    @check_types
    def explain(self, text: str) -> Explanation:
        """What the model gives to each token of a text, and what was retrieved for it.

        Args:
            text: A text that the model can read at once.

        Returns:
            p_LM, the component's p, P and the strongest neighbors of every token but the first.

        Raises:
            UsageError: The text has fewer than two tokens, or more than the model can read.
            KnnlmError: The datastore is not tuned and λ or τ is not given, or the model cannot
                generate with a datastore.

        Example:
            >>> print(KNNLM("store").explain("The with statement"))    # doctest: +SKIP
        """
        tokens = np.array(encode_prompt(self.tokenizer, text), np.int64)
        if len(tokens) < 2:
            raise UsageError("there is nothing to explain: give a text of two tokens or more")
        explained = explain_tokens(self.to_transformers(), tokens, 1, self.tokenizer)
        return Explanation(explained, self.settings)

    def to_transformers(self) -> KNNLMForCausalLM:
        """The same model as a Hugging Face model whose logits are log P.

        Raises:
            KnnlmError: The datastore is not tuned and λ or τ is not given, or the model cannot
                generate with a datastore.

        Example:
            >>> KNNLM("store").to_transformers().save_pretrained("knnlm")    # doctest: +SKIP
        """
        settings, opened = self.settings, self._transformers
        # as JSON, because a number that is not known (NaN) equals no other
        if opened is None or opened.config.settings != settings.as_json():
            opened = KNNLMForCausalLM.from_settings(self.store.model, self.store.entries, settings)
        self._transformers = opened
        return opened

    def _candidates(self, k: int | Sequence[int] | None) -> list[Component]:
        """The component to tune; of neighbors one for each k, the largest search first."""
        entries: Entries = self.store.entries
        if self.component_name != KNN_NAME:
            _refuse_retrieval(k=k)
            return [load_stored(entries, self.component_name)]
        given = self._k if k is None else k
        if given is None:
            given = defaults.K
        ks = [given] if isinstance(given, int) else list(given)
        if not ks:
            raise UsageError("no `k` given: give at least one")
        for each in ks:
            check_k(each)
        return [
            open_component(entries, KNN_NAME, retrieval_of(entries, self._wishes, k=each), 1.0)
            for each in sorted(set(ks), reverse=True)
        ]

    def _at(self, settings: TunedSettings) -> "KNNLM":
        """The same model at settings that were just tuned."""
        other = KNNLM(self.store, component=self.component_name)
        other._wishes, other._pinned = self._wishes, settings
        return other


def _refuse_retrieval(**given: Any) -> None:
    """Options of a search where a component is used instead of it."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"`{name}` belongs to a search: leave it out with `component`")
