"""Measurements and results made by hand, with answers that are known."""

from collections.abc import Mapping, Sequence
from typing import Any

from knnlm.experiments.base_lms import AboutLM
from knnlm.experiments.provenance import Provenance
from knnlm.experiments.records import Record
from knnlm_paper.conditions import PaperCondition
from knnlm_paper.conditions.knn import KNNMeasurement
from knnlm_paper.measurement import BaseNumbers, Documents, TauPoint, VotesPoint
from knnlm_paper.results import Results
from knnlm_paper.scales import SMOKE_SCALE, Scale

LM = AboutLM(
    parameters=100, width=8, train_tokens=50, steps=4, step=3, train_ppl=2.0, valid_ppl=3.0
)
PROVENANCE = Provenance(
    model="abc",
    other_models=(),
    train_seconds=60,
    others_train_seconds={},
    command="knnlm reproduce it",
    commit="0123",
    seed=0,
    versions={"python": "3.11"},
    machine="Linux",
    instructions="AVX2",
    threads=2,
    seconds=1.5,
)
TAU_POINT = TauPoint(temperature=2.0, lam=0.25, valid_ppl=9.0, ppl=8.0, units=1.0)
VOTES_POINT = VotesPoint(
    **vars(TAU_POINT),
    word_ppl=64.0,
    component_ppl=float("inf"),
    oracle=7.0,
    valid_oracle=7.5,
    helping=0.5,
    helped="ff00",
    lambda_of_test=0.3,
    ppl_of_test_lambda=7.9,
)


def base_numbers(tokens: int = 200, words: int = 100) -> BaseNumbers:
    """An LM of perplexity 10, calibrated 9."""
    return BaseNumbers(
        tokens=tokens,
        words=words,
        valid_tokens=300,
        valid_ppl=11.0,
        ppl=10.0,
        word_ppl=10.0 ** (tokens / words),
        calibrated_valid_ppl=10.0,
        calibrated_ppl=9.0,
        calibrated_temperature=1.1,
        calibrated_share=0.05,
    )


def documents_of(tokens: int, **sums: Sequence[float]) -> Documents:
    """Documents of so many tokens each, with these sums of log p by point."""
    count = len(next(iter(sums.values())))
    points = {point: tuple(values) for point, values in sums.items()}
    return Documents(tokens=(tokens,) * count, log_likelihood=points)


def knn_measurement(
    *, tokens: int = 100, words: int = 50, **sums: Sequence[float]
) -> KNNMeasurement:
    """Neighbors over documents of so many tokens and words each, with these sums of log p by
    point."""
    documents = documents_of(tokens, **(sums or {"base": [-500.0, -500.0]}))
    count = len(documents.tokens)
    return KNNMeasurement(
        entries=1000,
        recall=0.9,
        lm=LM,
        base=base_numbers(tokens * count, words * count),
        coverage=0.8,
        tau_1=VOTES_POINT,
        one_tau=VOTES_POINT,
        own_tau=VOTES_POINT,
        on_calibrated=TAU_POINT,
        documents=documents,
    )


def record_of(
    condition: PaperCondition[Any], measurement: Any, scale: str = "smoke"
) -> Record[Any]:
    """The record of a condition."""
    return Record(
        condition.name, condition.kind, scale, condition.settings, None, measurement, PROVENANCE
    )


def results_of(
    measurements: Mapping[PaperCondition[Any], Any], scale: Scale = SMOKE_SCALE
) -> Results:
    """Results that hold these measurements."""
    records = {c.name: record_of(c, m, scale.name) for c, m in measurements.items()}
    return Results(scale, records)
