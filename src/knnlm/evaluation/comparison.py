"""Two predictors of one text compared: a change of perplexity, its interval, and a verdict.

    effect = exp( Σ (log p_a - log p_b) / tokens ) - 1

is by how much the perplexity of b exceeds that of a, so it is above zero where a is better. Its
interval is a paired bootstrap over documents. What an interval says of a claim about the effect:

                     "more"                        "same"              "no more"
    does not hold    interval below the margin     outside ± margin    else, where above zero
    holds            else, where above zero        within ± margin     below the margin
    undecided        the interval allows both

Needs no torch."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knnlm.errors import KnnlmError, unknown
from knnlm.evaluation.bootstrap import bootstrap_means, interval_95

Sense = Literal["more", "same", "no more"]
SENSES: tuple[Sense, ...] = get_args(Sense)
Decision = Literal["holds", "does not hold", "undecided"]
MARGIN = 0.005
_MIN_DOCUMENTS = 10


@dataclass(frozen=True)
class DocumentSums:
    """log p of a text's tokens, summed over each document: all that a paired comparison needs.

    Attributes:
        log_likelihood: Σ log p of each document.
        tokens: How many tokens of each document were predicted.
    """

    log_likelihood: tuple[float, ...]
    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        documents, counted = len(self.log_likelihood), len(self.tokens)
        if documents != counted:
            raise ValueError(f"there are sums of {documents} documents and tokens of {counted}")

    @classmethod
    def of(cls, logprobs: ArrayLike, documents: NDArray[np.integer]) -> "DocumentSums":
        """Sum log p over documents.

        Args:
            logprobs: log p of each token.
            documents: The number of each token's document, from 0.

        Example:
            >>> DocumentSums.of([-1.0, -2.0, -4.0], np.array([0, 0, 1]))
            DocumentSums(log_likelihood=(-3.0, -4.0), tokens=(2, 1))
        """
        sums = np.bincount(documents, weights=np.asarray(logprobs, np.float64))
        return cls(tuple(sums.tolist()), tuple(np.bincount(documents).tolist()))

    @property
    def ppl(self) -> float:
        """Perplexity per token."""
        return float(np.exp(-np.sum(self.log_likelihood) / np.sum(self.tokens)))


@dataclass(frozen=True)
class Comparison:
    """A relative change of perplexity per token with its 95 % interval; minus is better."""

    change: float
    low: float
    high: float

    def verdict(self, sense: Sense = "more", margin: float = MARGIN) -> Decision:
        """What the interval says of a claim.

        Args:
            sense: "more": the first predictor is better than the second. "same": they differ by
                less than the margin. "no more": the first is not better.
            margin: A smaller effect does not count.

        Raises:
            UsageError: There is no such claim.
        """
        low, high = (1 / (1 + end) - 1 for end in (self.high, self.low))
        return verdict(sense, margin, low, high)

    def __str__(self) -> str:
        change, low, high = (
            f"{100 * value:+.1f}".replace("-", "−") for value in (self.change, self.low, self.high)
        )
        return f"{change} % ({low} to {high} %)"


def compare(a: DocumentSums, b: DocumentSums) -> Comparison:
    """Say by how much the perplexity of `a` differs from that of `b` on the same text.

    Documents of which no token was predicted are left out.

    Raises:
        KnnlmError: The two are of different tokens, of too few documents, or one of them gives a
            token no probability at all.

    Example:
        >>> worse = DocumentSums(tuple(-20.0 - i for i in range(10)), (10,) * 10)
        >>> better = DocumentSums(tuple(-19.0 - i for i in range(10)), (10,) * 10)
        >>> print(compare(better, worse))
        −9.5 % (−9.5 to −9.5 %)
    """
    if a.tokens != b.tokens:
        raise KnnlmError(
            "predictors of different tokens cannot be compared: measure both on one "
            "text with one tokenizer"
        )
    tokens = np.asarray(a.tokens, np.float64)
    predicted = tokens > 0
    if (documents := np.count_nonzero(predicted)) < _MIN_DOCUMENTS:
        raise KnnlmError(
            f"an interval needs at least {_MIN_DOCUMENTS} documents and the text has {documents}: "
            "take a text of more documents"
        )
    tokens = tokens[predicted]
    delta = (np.asarray(a.log_likelihood) - np.asarray(b.log_likelihood))[predicted]
    if not np.isfinite(delta).all():
        raise KnnlmError(
            "a predictor gives a token no probability at all, so its perplexity is infinite: mix "
            "it with the LM first"
        )
    better = bootstrap_means(delta, tokens)
    low, high = interval_95(better)
    ends = (delta.sum() / tokens.sum(), high, low)
    return Comparison(*(float(np.expm1(-end)) for end in ends))


def verdict(sense: Sense, margin: float, low: float, high: float) -> Decision:
    """Say what the interval of an effect means for a claim; the module's docstring has the table.

    Args:
        sense: What is claimed of the effect.
        margin: A smaller effect does not count.
        low: The lower end of the interval.
        high: Its upper end.

    Raises:
        UsageError: There is no such claim.
    """
    if sense not in SENSES:
        raise unknown("claim", sense, SENSES)
    match sense:
        case "same":
            inside = -margin < low and high < margin
            outside = low > margin or high < -margin
            return "holds" if inside else "does not hold" if outside else "undecided"
        case "no more":
            return "holds" if high < margin else "does not hold" if low > 0 else "undecided"
        case "more":
            return "does not hold" if high < margin else "holds" if low > 0 else "undecided"
