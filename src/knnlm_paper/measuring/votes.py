"""What votes do for an LM at several τ, and for it calibrated: shared by neighbors and by lists of
tokens."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from knnlm.components.knn import TargetVotes
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import fit_lambda, mix, oracle
from knnlm.evaluation.tuning import TemperaturePoint
from knnlm.experiments.base_lms import Checkpoint
from knnlm.experiments.workspace import SearchData
from knnlm_paper.measurement import BaseNumbers, Documents, TauPoint, VotesPoint
from knnlm_paper.measuring.base_lm import BaseLogs, Logs, base_numbers
from knnlm_paper.measuring.documents import DocumentSums
from knnlm_paper.measuring.temperatures import at_tau, best_tau, tau_point

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


@dataclass(frozen=True)
class MeasuredVotes:
    """The parts of a measurement that all votes have."""

    base: BaseNumbers
    coverage: float
    points: dict[str, VotesPoint]
    on_calibrated: TauPoint
    documents: Documents


def measure_votes(
    workspace: "PaperWorkspace",
    lm: Checkpoint,
    data: SearchData,
    votes: tuple[TargetVotes, TargetVotes],
    further: dict[str, TemperaturePoint],
) -> MeasuredVotes:
    """Votes at τ = 1, at further points, and at their own τ.

    Args:
        workspace: Where the LM's own log p are.
        lm: The LM that they are mixed with.
        data: The datastore and the texts.
        votes: Those for the tokens of the validation and of the test text.
        further: Points between the two, by name.
    """
    base, (valid, test) = workspace.base(*lm), votes
    at_one = at_tau(base.valid, valid, 1.0)
    taus = {"tau_1": at_one, **further, "own_tau": best_tau(base.valid, valid, at_one)}
    sums, points = DocumentSums(data, base), {}
    for name, point in taus.items():
        knn_valid, knn = valid.logprobs(point.tau), test.logprobs(point.tau)
        numbers = _votes_point(base, knn_valid, knn, point, data.test.words)
        points[name] = numbers
        sums.add(name, mix(base.test, knn, point.lam))
        sums.add(f"{name}_lambda_of_test", mix(base.test, knn, numbers.lambda_of_test))
    over = best_tau(base.calibrated_valid, valid)
    knn = test.logprobs(over.tau)
    sums.add("on_calibrated", mix(base.calibrated_test, knn, over.lam))
    return MeasuredVotes(
        base=base_numbers(base, data),
        coverage=test.coverage,
        points=points,
        on_calibrated=tau_point(base.calibrated_test, knn, over),
        documents=sums.collected(),
    )


def _votes_point(
    base: BaseLogs, knn_valid: Logs, knn: Logs, point: TemperaturePoint, words: int
) -> VotesPoint:
    """Everything about votes at one τ."""
    own = fit_lambda(base.test, knn)
    return VotesPoint(
        **vars(tau_point(base.test, knn, point)),
        word_ppl=perplexity(mix(base.test, knn, point.lam), words),
        component_ppl=perplexity(knn),
        oracle=perplexity(oracle(base.test, knn)),
        valid_oracle=perplexity(oracle(base.valid, knn_valid)),
        helping=helping(base.test, knn),
        helped=np.packbits(knn > base.test).tobytes().hex(),
        lambda_of_test=own,
        ppl_of_test_lambda=perplexity(mix(base.test, knn, own)),
    )
