"""What measurements of several kinds of conditions have in common, as frozen dataclasses.

A *point* of a measurement is one mixture that was measured:

    base, calibrated         the LM alone, and with its own softmax temperature and a unigram share
    tau_1                    neighbors at τ = 1, as the paper's code fixes it
    one_tau                  at the τ that is best for the paper's own retrieval, for all alike
    own_tau                  at the τ that is best for the condition itself; all weights fitted
    as_learned               a learned component at the τ that it was learned at
    on_calibrated            mixed with the calibrated LM, at the τ that is best there

λ is fitted at each. Everything is tuned on validation text and reported on test text. Perplexities
are per token where nothing else is said."""

from dataclasses import dataclass

from knnlm.typed_json import FieldError, Unbounded, json_name


@dataclass(frozen=True, kw_only=True)
class BaseNumbers:
    """The LM alone, and calibrated."""

    tokens: int
    """Of the test text, as far as they are searched for; and so all that follows."""
    words: int
    valid_tokens: int
    valid_ppl: float
    ppl: float
    word_ppl: float
    """Perplexity per word."""
    calibrated_valid_ppl: float
    calibrated_ppl: float
    calibrated_temperature: float
    calibrated_share: float
    """The share of unigrams."""


@dataclass(frozen=True, kw_only=True)
class MixturePoint:
    """A component mixed with an LM at one τ."""

    temperature: float
    lam: float = json_name("lambda")
    valid_ppl: float
    ppl: Unbounded
    """Infinite where λ is one and the component holds a token impossible."""


@dataclass(frozen=True, kw_only=True)
class TauPoint(MixturePoint):
    """Neighbors mixed with an LM at one τ."""

    units: float
    """τ in units of the spread of the neighbors' scores."""


@dataclass(frozen=True, kw_only=True)
class VotesPoint(TauPoint):
    """Everything about neighbors at one τ."""

    word_ppl: Unbounded
    component_ppl: Unbounded
    """Of the neighbors alone."""
    oracle: float
    """Of the better of LM and neighbors for every token."""
    valid_oracle: float
    helping: float
    """The share of tokens to which neighbors give more probability than the LM."""
    helped: str
    """Those tokens, a bit for each, in hex."""
    lambda_of_test: float
    """λ fitted on the test text itself (F2)."""
    ppl_of_test_lambda: float


@dataclass(frozen=True, kw_only=True)
class WeightsPoint:
    """Several predictors mixed, all weights fitted together."""

    shares: tuple[float, ...]
    """The LM's first, then those of the others in order."""
    valid_ppl: float
    ppl: Unbounded


@dataclass(frozen=True, kw_only=True)
class Documents:
    """Sums over each document of the test text, so that any two conditions can be compared by a
    paired bootstrap without going back to the tokens."""

    tokens: tuple[int, ...]
    log_likelihood: dict[str, tuple[float, ...]]
    """Σ log p, by point; a point that holds a token impossible has none. `…_lambda_of_test`: with λ
    of the test text itself; `…_alone`: of the component without the LM."""

    def __post_init__(self) -> None:
        for point, sums in self.log_likelihood.items():
            if len(sums) != len(self.tokens):
                problem = f"has {len(sums)} documents instead of {len(self.tokens)}"
                raise FieldError(f"documents.log_likelihood.{point}", problem)
