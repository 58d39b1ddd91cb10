"""Several predictors mixed, all weights fitted together on validation text."""

from collections.abc import Sequence
from typing import NamedTuple

from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_weights, mix_several
from knnlm_paper.measurement import WeightsPoint
from knnlm_paper.measuring.base_lm import Logs


class FittedMixture(NamedTuple):
    """A mixture's numbers, and its log p of the test text."""

    point: WeightsPoint
    test: Logs


def fitted_mixture(valid: Sequence[Logs], test: Sequence[Logs]) -> FittedMixture:
    """The mixture of predictors.

    Args:
        valid: log p of the validation text under each.
        test: The same of the test text.
    """
    shares = fit_weights(valid)
    mixed = mix_several(test, shares)
    point = WeightsPoint(
        shares=tuple(shares),
        valid_ppl=perplexity(mix_several(valid, shares)),
        ppl=perplexity(mixed),
    )
    return FittedMixture(point, mixed)
