"""Two predictors of one text compared, on constructed data where the truth is known."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation import Comparison, DocumentSums, compare
from knnlm.evaluation.comparison import Sense, verdict

SENSES: tuple[Sense, ...] = ("more", "same", "no more")
effects = st.floats(-0.5, 0.5)
documents = hnp.arrays(np.int64, st.integers(30, 60), elements=st.integers(0, 11))


def sums(per_token: float, spread: float = 0.0, count: int = 20) -> DocumentSums:
    """Documents of 100 tokens each, with so many nats a token."""
    noise = np.random.default_rng(7).normal(0, spread, count)
    return DocumentSums(tuple((100 * (per_token + noise)).tolist()), (100,) * count)


@given(documents, st.integers(0, 5))
def test_sums_are_those_of_each_document(numbers: np.ndarray, seed: int) -> None:
    logs = -np.random.default_rng(seed).exponential(size=len(numbers))
    summed = DocumentSums.of(logs, numbers)
    for number, (total, tokens) in enumerate(
        zip(summed.log_likelihood, summed.tokens, strict=True)
    ):
        assert tokens == (numbers == number).sum()
        assert total == pytest.approx(logs[numbers == number].sum())
    assert summed.ppl == pytest.approx(math.exp(-logs.mean()))


def test_the_change_is_that_of_the_perplexities() -> None:
    a, b = sums(-2.0, 0.3), sums(-2.2, 0.1)
    found = compare(a, b)
    assert found.change == pytest.approx(a.ppl / b.ppl - 1)
    assert found.low < found.change < found.high < 0
    assert found.verdict() == "holds"
    assert compare(b, a).verdict() == "does not hold"
    assert compare(a, a) == Comparison(0, 0, 0)
    assert compare(a, a).verdict("same") == "holds"


def test_the_interval_contains_the_truth_as_often_as_it_says() -> None:
    """200 texts of 40 documents whose true change is known: 95 % of the intervals hold it, less
    what a bootstrap of so few documents loses."""
    rng, truth, inside = np.random.default_rng(3), math.expm1(-0.02), 0
    for _ in range(200):
        tokens = rng.integers(50, 150, 40)
        before = -2.0 * tokens
        after = before + 0.02 * tokens + rng.normal(0, 3, 40)
        found = compare(
            DocumentSums(tuple(after.tolist()), tuple(tokens.tolist())),
            DocumentSums(tuple(before.tolist()), tuple(tokens.tolist())),
        )
        inside += found.low <= truth <= found.high
    assert 0.89 <= inside / 200 <= 0.99


def test_a_comparison_reads_as_in_the_tables() -> None:
    assert str(Comparison(-0.1234, -0.15, 0.001)) == "−12.3 % (−15.0 to +0.1 %)"


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (sums(-2, count=9), sums(-3, count=9), "at least 10 documents and the text has 9"),
        (sums(-2, count=12), sums(-2, count=13), "different tokens"),
        (sums(-math.inf), sums(-2), "no probability at all"),
    ],
)
def test_what_cannot_be_compared_is_refused(a: DocumentSums, b: DocumentSums, words: str) -> None:
    with pytest.raises(KnnlmError, match=words):
        compare(a, b)


def scattered(count: int, every: int, per_token: float = -2.0) -> DocumentSums:
    """Documents of 100 tokens whose numbers are `every` apart; those between have no tokens."""
    numbers = np.repeat(np.arange(0, count * every, every), 100)
    noise = np.random.default_rng(7).normal(0, 0.1, len(numbers))
    return DocumentSums.of(per_token + noise * per_token, numbers)


def test_documents_without_tokens_do_not_count_toward_the_ten() -> None:
    a, b = scattered(5, 3), scattered(5, 3, -3.0)
    assert len(a.tokens) == 13
    with pytest.raises(KnnlmError, match="at least 10 documents and the text has 5"):
        compare(a, b)


def test_documents_without_tokens_change_nothing() -> None:
    """Drawing none but empty documents would leave no perplexity at all."""
    gaps = compare(scattered(10, 50), scattered(10, 50, -3.0))
    assert gaps == compare(scattered(10, 1), scattered(10, 1, -3.0))
    assert gaps.low < gaps.change < gaps.high < 0


def test_a_sum_and_a_number_of_tokens_for_every_document() -> None:
    with pytest.raises(ValueError, match="sums of 2 documents and tokens of 3"):
        DocumentSums((-1.0, -2.0), (1, 1, 1))


@pytest.mark.parametrize("sense", ["less", "More", ""])
def test_an_unknown_claim_is_refused(sense: Any) -> None:
    with pytest.raises(UsageError, match="choose one of more, no more, same"):
        Comparison(-0.1, -0.2, -0.05).verdict(sense)


@pytest.mark.parametrize(
    ("sense", "low", "high", "wanted"),
    [
        ("more", 0.001, 0.02, "holds"),
        ("more", 0.001, 0.002, "does not hold"),
        ("more", -0.01, 0.004, "does not hold"),
        ("more", -0.01, 0.006, "undecided"),
        ("more", -0.2, -0.1, "does not hold"),
        ("more", 0.0, 0.02, "undecided"),
        ("same", -0.004, 0.004, "holds"),
        ("same", -0.004, 0.006, "undecided"),
        ("same", -0.006, 0.004, "undecided"),
        ("same", -0.006, 0.006, "undecided"),
        ("same", 0.006, 0.02, "does not hold"),
        ("same", -0.02, -0.006, "does not hold"),
        ("no more", -0.02, 0.004, "holds"),
        ("no more", -0.2, -0.1, "holds"),
        ("no more", 0.001, 0.004, "holds"),
        ("no more", 0.001, 0.02, "does not hold"),
        ("no more", -0.001, 0.02, "undecided"),
    ],
)
def test_verdicts(sense: Sense, low: float, high: float, wanted: str) -> None:
    assert verdict(sense, 0.005, low, high) == wanted
    ends = (1 / (1 + end) - 1 for end in (high, low))
    assert Comparison(0.0, *ends).verdict(sense) == wanted


@given(effects, effects, st.floats(0, 0.1))
def test_verdicts_do_not_contradict_each_other(one: float, two: float, margin: float) -> None:
    low, high = sorted((one, two))
    more, same, no_more = (verdict(sense, margin, low, high) for sense in SENSES)
    opposite = {"holds": "does not hold", "does not hold": "holds", "undecided": "undecided"}
    assert no_more == opposite[more]
    assert same == verdict("same", margin, -high, -low)
    if same == "holds":
        assert more == "does not hold"
    if low <= 0 and high >= margin:
        assert more == "undecided"
    if low < -margin and high > margin:
        assert same == "undecided"


@given(effects, st.sampled_from([0.0025, 0.005, 0.01]))
def test_what_is_known_exactly_is_decided(effect: float, margin: float) -> None:
    assume(abs(abs(effect) - margin) > 1e-12)
    more, same, no_more = (verdict(sense, margin, effect, effect) for sense in SENSES)
    assert (more == "holds") == (effect > margin)
    assert (same == "holds") == (abs(effect) < margin)
    assert (no_more == "holds") == (effect < margin)
    assert "undecided" not in (more, same, no_more)
