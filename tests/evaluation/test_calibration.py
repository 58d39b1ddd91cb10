"""The calibrated LM: its formula, and a search that is no worse than a bounded one was."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from knnlm.components.base import Logs
from knnlm.evaluation.calibration import (
    Calibration,
    TemperedLM,
    calibrate,
    calibrated_logprobs,
    unigram_logprobs,
)
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.models.load import load_model

D, N = 16, 1500


def bounded_calibration(scores: TemperedLM, unigrams: Logs) -> Calibration:
    """T of 1/8 … 8 by a bounded search, u fitted exactly at each T."""

    def at(log_temperature: float) -> Calibration:
        logs = scores.logprobs(math.exp(log_temperature))
        share = fit_lambda(logs, unigrams)
        ppl = perplexity(mix(logs, unigrams, share))
        return Calibration(math.exp(log_temperature), share, ppl)

    best = minimize_scalar(
        lambda x: at(x).valid_ppl,
        bounds=(-math.log(8), math.log(8)),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return at(float(best.x))


def text(tiny_model: Path, truth: float) -> tuple[TemperedLM, Logs]:
    """Tokens drawn half from the LM at T = `truth` and half by their counts, and their unigrams."""
    lm, rng = load_model(tiny_model), np.random.default_rng(0)
    states = 8 * rng.standard_normal((N, D)).astype(np.float32)
    with torch.inference_mode():
        weight = lm.model.get_output_embeddings().weight
        p = (torch.from_numpy(states) @ weight.T / truth).softmax(1).double().numpy()
    stored = (len(p[0]) * rng.random(4000) ** 3).astype(np.int32)
    drawn = [rng.choice(len(row), p=row / row.sum()) for row in p]
    targets = np.where(rng.random(N) < 0.7, drawn, rng.choice(stored, N)).astype(np.int32)
    scores = TemperedLM(lm.model, states, targets)
    return scores, unigram_logprobs(stored, targets, len(p[0]))


@pytest.mark.parametrize("truth", [0.3, 1.0, 2.5])
def test_it_is_no_worse_than_a_bounded_search(tiny_model: Path, truth: float) -> None:
    scores, unigrams = text(tiny_model, truth)
    calibration, bounded = (
        calibrate(scores, scores.logprobs(1.0), unigrams).calibration,
        bounded_calibration(scores, unigrams),
    )
    assert calibration.valid_ppl <= bounded.valid_ppl * (1 + 1e-5)
    assert calibration.temperature == pytest.approx(bounded.temperature, rel=0.02)
    assert calibration.share == pytest.approx(bounded.share, abs=0.01)
    assert calibration.temperature == pytest.approx(truth, rel=0.2)
    assert 0.1 < calibration.share < 0.5


@pytest.mark.parametrize("truth", [0.3, 2.5])
def test_no_point_of_a_grid_is_better(tiny_model: Path, truth: float) -> None:
    """The fit is concave in neither, so it is compared with all of T and u at once."""
    scores, unigrams = text(tiny_model, truth)
    calibration = calibrate(scores, scores.logprobs(1.0), unigrams).calibration
    taus = [float(t) for t in np.geomspace(truth / 4, truth * 4, 41)]
    shares = np.linspace(0, 1, 51)
    grid = [
        perplexity(mix(logs, unigrams, float(u))) for logs in scores.several(taus) for u in shares
    ]
    assert calibration.valid_ppl <= min(grid) * (1 + 1e-6)
    assert min(grid) < 0.9 * perplexity(scores.logprobs(1.0))  # so T matters here


def test_it_is_the_mixture_that_it_says(tiny_model: Path) -> None:
    scores, unigrams = text(tiny_model, 2.5)
    calibration = calibrate(scores, scores.logprobs(1.0), unigrams).calibration
    logs = calibrated_logprobs(scores, unigrams, calibration)
    assert perplexity(logs) == pytest.approx(calibration.valid_ppl, rel=1e-9)
    assert calibration.valid_ppl < perplexity(scores.logprobs(1.0))
    with torch.inference_mode():
        weight = scores.model.get_output_embeddings().weight.double().numpy()
    logits = np.asarray(scores.ffn, np.float64) @ weight.T / calibration.temperature
    p = np.exp(logits - logits.max(1, keepdims=True))
    own = (p / p.sum(1, keepdims=True))[np.arange(N), scores.targets]
    u = calibration.share
    np.testing.assert_allclose(
        logs, np.log((1 - u) * own + u * np.exp(unigrams)), rtol=1e-4, atol=1e-4
    )


def test_unigrams_count_one_more_of_every_token() -> None:
    logs = unigram_logprobs(np.array([0, 0, 2]), np.array([0, 1, 2]), 4)
    np.testing.assert_allclose(np.exp(logs), [3 / 7, 1 / 7, 2 / 7])
