"""An example of each kind of condition: itself, one that costs more, and a measurement."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions import (
    KNN,
    Combined,
    Ensemble,
    FullDatastore,
    Learned,
    NeighborCounts,
    PaperCondition,
    PlaceInText,
    Reachability,
    TemperatureCurve,
    TokenList,
    WordTypes,
)
from knnlm_paper.conditions.combined import CombinedMeasurement
from knnlm_paper.conditions.ensemble.condition import (
    CalibratedWeights,
    EnsembleMeasurement,
    OtherLM,
)
from knnlm_paper.conditions.full_datastore import FullDatastoreMeasurement, FullPoint
from knnlm_paper.conditions.learned import AddedCost, Fit, LearnedMeasurement, LearnedPoint
from knnlm_paper.conditions.neighbor_counts import CountPoint, NeighborCountsMeasurement
from knnlm_paper.conditions.place_in_text import (
    Correlation,
    Dependence,
    PlaceInTextMeasurement,
    Quantities,
    Range,
    Third,
    Thirds,
)
from knnlm_paper.conditions.reachability import ReachabilityMeasurement
from knnlm_paper.conditions.temperature_curve import TemperatureCurveMeasurement
from knnlm_paper.conditions.token_list import TokenListMeasurement
from knnlm_paper.conditions.word_types import WordType, WordTypesMeasurement
from knnlm_paper.measurement import MixturePoint, WeightsPoint
from knnlm_paper.retrieval import Retrieval, exactly
from tests.paper.constructed import (
    LM,
    TAU_POINT,
    VOTES_POINT,
    base_numbers,
    documents_of,
    knn_measurement,
)


class Example(NamedTuple):
    """A condition, its name and label, a condition that costs more, and a measurement."""

    condition: PaperCondition[Any]
    name: str
    label: str
    larger: PaperCondition[Any]
    measurement: Any


NEAR = Retrieval()
EXACT = exactly(NEAR)
MORE = replace(NEAR, k=2048)
DOCUMENTS = documents_of(100, base=[-1.5, -2.0], calibrated=[-1.0, -2.0], own_tau=[-1.25, -1.5])
ADDED = AddedCost(parameters=64, multiplications=64, widths=0.5)
WEIGHTS = WeightsPoint(shares=(0.75, 0.25), valid_ppl=9.0, ppl=8.0)
MIXTURE = MixturePoint(temperature=2.0, lam=0.25, valid_ppl=9.0, ppl=8.0)
LEARNED_POINT = LearnedPoint(
    **vars(MIXTURE), alone_valid_ppl=math.inf, alone_ppl=20.0, oracle=7.0, helping=0.5
)
FULL_POINT = FullPoint(**vars(MIXTURE), alone_ppl=math.inf, oracle=7.0, helping=0.5, coverage=0.9)
DEPENDENCE = Dependence(
    tokens=10,
    correlation=Correlation(0.5, 0.25, 0.75),
    ranges=(Range(position=1.5, tokens=5, mean=0.5), Range(position=7.0, tokens=5, mean=0.25)),
    thirds=Thirds(
        first=Third(tokens=(1.0, 2.0), sum=(0.5, 1.0)),
        last=Third(tokens=(2.0, 1.0), sum=(1.0, 0.5)),
    ),
)
QUANTITIES = Quantities(loss=DEPENDENCE, gain=replace(DEPENDENCE, correlation=None))

EXAMPLES = (
    Example(
        KNN(NEAR), "main_att_l2_index", "neighbors (att, L2, index)", KNN(MORE), knn_measurement()
    ),
    Example(
        TemperatureCurve(EXACT),
        "main_att_l2_exact_temperature-curve",
        "perplexity against τ (att, L2, exact search)",
        TemperatureCurve(MORE),
        TemperatureCurveMeasurement(base=base_numbers(), points=(TAU_POINT, TAU_POINT)),
    ),
    Example(
        NeighborCounts(MORE, (1, 2048)),
        "main_att_l2_index_k-2048_neighbor-counts",
        "perplexity against k (att, L2, index)",
        NeighborCounts(replace(NEAR, k=4096), (1, 4096)),
        NeighborCountsMeasurement(
            base=base_numbers(),
            points=(CountPoint(k=1, coverage=0.5, tau_1=TAU_POINT, own_tau=TAU_POINT),),
        ),
    ),
    Example(
        PlaceInText(EXACT),
        "main_att_l2_exact_place-in-text",
        "loss and gain against the place in the text (att, L2, exact search)",
        PlaceInText(MORE),
        PlaceInTextMeasurement(lm=LM, window=QUANTITIES, document=QUANTITIES),
    ),
    Example(
        WordTypes(EXACT, replace(NEAR, score="exact"), 3),
        "main_att_l2_exact_word-types-against-index",
        "word types (att, L2, exact search, against index, exact scores)",
        WordTypes(exactly(MORE), replace(MORE, score="exact"), 3),
        WordTypesMeasurement(
            types=(
                WordType(
                    token=" the",
                    occurrences=9,
                    length=3,
                    forward=2.5,
                    backward=1.5,
                    exact=0.5,
                    approximate=0.25,
                ),
            )
        ),
    ),
    Example(
        Learned(),
        "main_att_learned",
        "att, learned head",
        Learned(size=2),
        LearnedMeasurement(
            lm=LM,
            base=base_numbers(),
            added=ADDED,
            fit=Fit(
                rate=0.01, steps=9, best_step=6, rates={"0.01": 2.5, "1": math.inf}, alike=None
            ),
            as_learned=LEARNED_POINT,
            own_tau=LEARNED_POINT,
            on_calibrated=MIXTURE,
            documents=DOCUMENTS,
        ),
    ),
    Example(
        Combined((Learned(), Learned(state="ffn"))),
        "main_combined_att+ffn",
        "a head on att + a head on ffn",
        Combined((Learned(), Learned(state="ffn")), (EXACT,)),
        CombinedMeasurement(
            lm=LM,
            base=base_numbers(),
            added=ADDED,
            own_tau=WEIGHTS,
            on_calibrated=WEIGHTS,
            documents=DOCUMENTS,
        ),
    ),
    Example(
        TokenList(k=8),
        "main_token-list_likeliest_k-8",
        "the LM's own 8 likeliest tokens",
        TokenList(k=64),
        TokenListMeasurement(
            lm=LM,
            base=base_numbers(),
            coverage=0.5,
            tau_1=VOTES_POINT,
            own_tau=VOTES_POINT,
            on_calibrated=TAU_POINT,
            documents=DOCUMENTS,
        ),
    ),
    Example(
        Ensemble((Checkpoint("seed-1"),)),
        "main_ensemble_seed-1",
        "seed-1",
        Ensemble((Checkpoint("seed-1"), Checkpoint("memorised", 40)), (EXACT,)),
        EnsembleMeasurement(
            lm=LM,
            base=base_numbers(),
            others=(
                OtherLM(
                    name="seed-1",
                    kept=None,
                    lm=replace(LM, train_ppl=None),
                    ppl=12.0,
                    calibrated_ppl=11.0,
                    calibrated_temperature=1.25,
                    calibrated_share=0.0,
                    oracle=9.0,
                    helping=0.5,
                ),
            ),
            own_tau=WEIGHTS,
            on_calibrated=CalibratedWeights(**vars(WEIGHTS), unigrams=0.05, factor=0.95),
            documents=DOCUMENTS,
        ),
    ),
    Example(
        FullDatastore(),
        "main_att_l2_full-datastore",
        "main: att, L2, all entries",
        FullDatastore(Checkpoint("wide")),
        FullDatastoreMeasurement(
            lm=LM,
            base=base_numbers(),
            entries=1000,
            own_tau=FULL_POINT,
            on_calibrated=FULL_POINT,
            documents=DOCUMENTS,
        ),
    ),
    Example(
        Reachability(),
        "main_reachability",
        "main: tokens that no state can make the most probable",
        Reachability(Checkpoint("wide")),
        ReachabilityMeasurement(
            lm=LM, vocabulary=512, unreachable=1, linear_programs=7, examples=("Ġthe",)
        ),
    ),
)
