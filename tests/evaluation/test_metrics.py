"""Perplexity, the share of tokens helped, and intervals that cover the truth."""

import math

import numpy as np
from numpy.testing import assert_allclose

from knnlm.datastore.entries import evenly_spaced
from knnlm.evaluation.metrics import helping, perplexity, ratio_interval


def test_perplexity_of_a_uniform_guess_is_the_number_of_choices() -> None:
    assert_allclose(perplexity(np.log(np.full(9, 1 / 50))), 50)


def test_perplexity_per_word_counts_words() -> None:
    assert_allclose(perplexity(np.log(np.full(6, 0.5)), count=3), 4.0)


def test_an_impossible_token_makes_perplexity_infinite() -> None:
    assert perplexity(np.array([-1.0, -np.inf])) == math.inf


def test_helping_counts_strict_gains_only() -> None:
    assert (
        helping(np.array([-1.0, -1.0, -1.0, -1.0]), np.array([-0.5, -1.0, -2.0, -np.inf])) == 0.25
    )


def test_no_change_gives_an_interval_of_one() -> None:
    lm = np.log(np.random.default_rng(0).uniform(size=500))
    interval = ratio_interval(lm, lm, np.repeat(np.arange(50), 10))
    assert interval is not None
    assert (interval.low, interval.high, interval.unit) == (1.0, 1.0, "document")


def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    """Gains differ more between documents than within them, so tokens must not be resampled."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        documents = np.repeat(np.arange(40), 25)
        gain = 0.1 + rng.normal(0, 0.2, 40)[documents] + rng.normal(0, 0.2, 1000)
        interval = ratio_interval(np.zeros(1000), gain, documents, samples=500, seed=seed)
        assert interval is not None
        covered += interval.low <= math.exp(-0.1) <= interval.high
    assert 178 <= covered <= 198


def test_too_little_text_or_an_impossible_token_has_no_interval() -> None:
    assert ratio_interval(np.zeros(150), np.ones(150), np.zeros(150, int)) is None
    impossible = np.append(np.zeros(4999), -np.inf)
    assert ratio_interval(np.zeros(5000), impossible, np.zeros(5000, int)) is None


def test_a_text_without_words_has_no_perplexity_per_word() -> None:
    assert math.isnan(perplexity(np.log([0.5]), count=0))


def test_few_documents_are_cut_into_blocks() -> None:
    rng = np.random.default_rng(0)
    interval = ratio_interval(np.zeros(5000), rng.normal(0.1, 0.5, 5000), np.zeros(5000, int))
    assert interval is not None
    assert interval.unit == "block of 200 tokens"
    assert interval.low < math.exp(-0.1) < interval.high


def test_evenly_spaced_numbers_reach_both_ends() -> None:
    assert evenly_spaced(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert evenly_spaced(101, 5).tolist() == [0, 25, 50, 75, 100]
