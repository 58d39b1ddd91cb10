"""Tuning any component on a validation text."""

import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knnlm.components import KNN, Component, FullDatastore, Mixture
from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.evaluation.tuning import check_enough, tune, tune_best
from knnlm.files import fingerprint
from knnlm.progress import log
from knnlm.search.retrieval import Retrieval
from tests.components.examples import random_clusters, random_head, random_mlp


def best_of_grid(component: Component, valid: Entries) -> float:
    lm, scores = valid.lm_logprob.astype(np.float64), component.target_scores(valid)
    grid = np.geomspace(scores.unit / 1000, scores.unit * 1000, 120)
    every = (scores.logprobs(tau) for tau in grid)
    return min(perplexity(mix(lm, logs, fit_lambda(lm, logs))) for logs in every)


def test_tuning_finds_at_least_what_a_fine_grid_finds(store: Entries, valid: Entries) -> None:
    knn = KNN(store, Retrieval(key="ffn", k=50))
    settings = tune(knn, valid, name="knn").settings
    assert settings.interp_ppl <= best_of_grid(knn, valid) * (1 + 1e-5)
    unit = knn.target_scores(valid).unit
    assert_allclose(settings.tau, settings.tau_units * unit)


@pytest.mark.parametrize("kind", ["head", "clusters", "mlp"])
def test_a_learned_component_is_tuned_as_well(store: Entries, valid: Entries, kind: str) -> None:
    sizes = (store.vocab_size, store.key("att").type.width)
    component: Component = {
        "head": random_head(*sizes, "l2", 1.0),
        "clusters": random_clusters(*sizes),
        "mlp": random_mlp(*sizes),
    }[kind]
    tuned = tune(component, valid, name=kind)
    assert tuned.settings.interp_ppl <= best_of_grid(component, valid) * (1 + 1e-5)
    assert tuned.settings.interp_ppl <= tuned.settings.base_ppl
    assert (tuned.settings.component, tuned.settings.retrieval) == (kind, None)
    assert tuned.component.tau == tuned.settings.tau


def test_settings_say_what_the_tuned_component_gives(store: Entries, valid: Entries) -> None:
    component, settings = tune(KNN(store, Retrieval(k=16)), valid, name="knn")
    lm = valid.lm_logprob.astype(np.float64)
    assert component.tau == settings.tau
    assert settings.base_ppl == perplexity(lm)
    mixed = mix(lm, component.target_logprobs(valid), settings.lam)
    assert settings.interp_ppl == perplexity(mixed)
    assert settings.interp_ppl < settings.base_ppl
    assert (settings.component, settings.retrieval) == ("knn", Retrieval(k=16))
    assert settings.tokens == valid.count
    assert settings.text == fingerprint(valid.meta["text"])


def test_a_grid_of_temperatures_instead_of_a_search(store: Entries, valid: Entries) -> None:
    knn, grid = KNN(store, Retrieval(k=16)), [0.1, 3.0, 500.0]
    component, settings = tune(knn, valid, name="knn", taus=grid)
    alone = [tune(knn, valid, name="knn", taus=[tau]).settings for tau in grid]
    assert settings == min(alone, key=lambda each: each.interp_ppl)
    assert np.isclose(grid, component.tau).any()
    with pytest.raises(UsageError, match="no temperature given"):
        tune(knn, valid, name="knn", taus=[])
    with pytest.raises(UsageError, match="choose a number above 0"):
        tune(knn, valid, name="knn", taus=[1.0, 0.0])


def test_of_a_mixture_only_lambda_is_fitted(store: Entries, valid: Entries) -> None:
    parts = (KNN(store, Retrieval(k=16), 3.0), FullDatastore(store, "ffn", "ip", 9.0))
    mixture = Mixture(parts, (0.6, 0.4))
    component, settings = tune(mixture, valid, name="mixture")
    assert component is mixture
    lm = valid.lm_logprob.astype(np.float64)
    assert settings.lam == fit_lambda(lm, mixture.target_logprobs(valid))
    assert (settings.tau, settings.retrieval) == (1.0, None)
    with pytest.raises(UsageError, match="has no temperature"):
        tune(mixture, valid, name="mixture", taus=[2.0])


def test_several_k_are_compared(store: Entries, valid: Entries) -> None:
    candidates = [KNN(store, Retrieval(k=k)) for k in (64, 1)]
    best = tune_best(candidates, valid, name="knn")
    alone = [tune(each, valid, name="knn").settings.interp_ppl for each in candidates]
    assert best.settings.interp_ppl == min(alone)
    assert best.component.retrieval == best.settings.retrieval


def test_a_handful_of_tokens_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "propagate", True)
    with caplog.at_level(logging.WARNING):
        check_enough(1000, 5)
        assert not caplog.text
        check_enough(999, 5)
    assert "fitted on only 999 tokens" in caplog.text


@pytest.mark.parametrize(("documents", "named"), [(1, "1 document,"), (4, "4 documents,")])
def test_a_handful_of_documents_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, documents: int, named: str
) -> None:
    monkeypatch.setattr(log, "propagate", True)
    with caplog.at_level(logging.WARNING):
        check_enough(50_000, documents)
    assert f"fitted on only {named} which may be unlike others" in caplog.text
