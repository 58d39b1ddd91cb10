"""Every kind of condition: its name, its record, its cost, and the same of another LM or seed."""

import json
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from knnlm.experiments.base_lms import BaseLM, Checkpoint
from knnlm.experiments.plan import Costs
from knnlm.typed_json import from_json, to_json
from knnlm_paper.conditions import (
    KINDS,
    KNN,
    Combined,
    Ensemble,
    FullDatastore,
    Learned,
    PaperCondition,
    Reachability,
    TokenList,
)
from knnlm_paper.experiments import all_experiments, unique_conditions
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import SCALES, SMOKE_SCALE, Scale
from tests.paper.constructed import record_of, results_of
from tests.paper.examples import EXACT, EXAMPLES, NEAR, Example

MAIN = SMOKE_SCALE.lm("main")
WIDE = BaseLM("wide", replace(MAIN.preset, width=8 * MAIN.preset.width))
SCALE = replace(SMOKE_SCALE, lms=(*SMOKE_SCALE.lms, WIDE))
COSTS = Costs(SCALE.lms, SCALE.sizes)
each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.condition.kind)


def test_every_kind_has_an_example() -> None:
    kinds = [example.condition.kind for example in EXAMPLES]
    assert sorted(kinds) == sorted(KINDS)


@each
def test_a_name_and_a_label_follow_from_the_settings(example: Example) -> None:
    assert example.condition.name == example.name
    assert example.condition.label == example.label
    assert example.larger.name != example.name


@each
def test_a_kind_is_read_back_from_its_settings(example: Example) -> None:
    for condition in (example.condition, example.larger):
        settings = json.loads(json.dumps(condition.settings))
        assert from_json(KINDS[condition.kind], settings) == condition


@each
def test_a_measurement_is_read_as_it_was_written(example: Example) -> None:
    kind = KINDS[example.condition.kind]
    assert type(example.measurement) is kind.measurement_type
    written = json.loads(json.dumps(to_json(example.measurement), allow_nan=False))
    assert from_json(kind.measurement_type, written) == example.measurement


@each
def test_measurements_are_frozen(example: Example) -> None:
    assert is_dataclass(example.measurement)
    name = fields(example.measurement)[0].name
    with pytest.raises(AttributeError):
        setattr(example.measurement, name, None)


def work(condition: PaperCondition[Any]) -> float:
    return sum(step.seconds for step in condition.cost(COSTS, SCALE))


@each
def test_the_cost_is_positive_and_grows(example: Example) -> None:
    assert 0 < work(example.condition) < work(example.larger)
    assert all(step.bytes >= 0 for step in example.condition.cost(COSTS, SCALE))


@each
def test_it_can_be_moved_to_another_lm(example: Example) -> None:
    moved = example.condition.with_lm("seed-1")
    assert moved.lm.name == "seed-1"
    assert moved.name == example.name.replace("main", "seed-1", 1)
    assert {retrieval.lm for retrieval in moved.retrievals} <= {"seed-1"}
    assert moved.with_lm("main") == example.condition


@each
def test_a_seed_changes_what_is_learned_alone(example: Example) -> None:
    moved = example.condition.with_seed(3)
    assert (moved != example.condition) == example.condition.has_seed
    assert moved.with_seed(0) == example.condition
    assert moved.lm == example.condition.lm


@each
def test_needed_searches_are_those_of_the_retrievals(example: Example) -> None:
    retrievals = example.larger.retrievals
    assert set(example.larger.searches) == {retrieval.spec for retrieval in retrievals}


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_no_two_conditions_of_a_scale_share_a_name(scale: Scale) -> None:
    every = {c for experiment in all_experiments(scale) for c in experiment.conditions}
    assert len({c.name for c in every}) == len(every)
    assert set(unique_conditions(all_experiments(scale))) == every
    assert {c.kind for c in every} == set(KINDS)
    assert all(len(f"{c.name}.json") < 255 for c in every)


def test_conditions_of_one_lm_stand_together() -> None:
    lms = [c.lm for c in unique_conditions(all_experiments(SMOKE_SCALE))]
    changes = sum(a != b for a, b in pairwise(lms))
    assert changes == len(set(lms)) - 1


@pytest.mark.parametrize(
    ("retrieval", "name"),
    [
        (NEAR, "main_att_l2_index"),
        (EXACT, "main_att_l2_exact"),
        (replace(NEAR, score="exact"), "main_att_l2_index_score-exact"),
        (replace(EXACT, score="index"), "main_att_l2_exact_score-index"),
        (replace(EXACT, score="half", step=20), "main_att_l2_exact_score-half_step-20"),
        (Retrieval(state="ffn-normed", metric="ip"), "main_ffn-normed_ip_index"),
        (Retrieval(factory="IVF32,PQ8", nprobe=4), "main_att_l2_index_factory-IVF32-PQ8_nprobe-4"),
        (Retrieval(fraction=0.25, draw=1), "main_att_l2_index_fraction-0.25_draw-1"),
    ],
)
def test_names_of_retrievals(retrieval: Retrieval, name: str) -> None:
    assert retrieval.name == name


def test_labels_of_retrievals_say_what_is_unusual() -> None:
    some = Retrieval(lm="wide", state="att-raw", fraction=0.25, draw=1, zeros=0.26, width=16)
    assert some.label == (
        "wide: att before its LayerNorm, L2, index, 25% of the datastore, draw 1, "
        "26% zero entries, 16 principal components"
    )
    assert replace(EXACT, score="half", step=20).label == (
        "main at update 20: att, L2, exact search, exact scores in fp16"
    )


def test_exact_search_among_zero_entries_needs_no_search_of_its_own() -> None:
    assert replace(EXACT, zeros=0.5).spec == EXACT.spec
    assert replace(NEAR, zeros=0.5).spec != NEAR.spec
    assert replace(EXACT, factory="PQ8", nprobe=1).spec == EXACT.spec


@pytest.mark.parametrize("score", ["half", "index"])
def test_scores_that_zero_entries_do_not_have_are_refused(score: Any) -> None:
    with pytest.raises(ValueError, match=f"score {score} is not known for zero entries"):
        Retrieval(search="exact", score=score, zeros=0.5)


def test_neighbors_use_the_tau_of_the_papers_retrieval() -> None:
    condition = KNN(Retrieval(lm="seed-1", step=20, state="ffn", search="exact", score="exact"))
    assert condition.references(SCALE) == (paper_retrieval(SCALE, "seed-1", 20),)


def test_what_neighbors_teach_needs_their_search() -> None:
    taught = Learned(soft=0.5)
    assert taught.references(SCALE) == (exactly(paper_retrieval(SCALE)),)
    assert taught.teachers(SCALE) == {Checkpoint("main")}
    assert Combined((taught, Learned())).teachers(SCALE) == {Checkpoint("main")}
    assert Learned().teachers(SCALE) == frozenset()
    student = Ensemble((Checkpoint("taught-by-knn-lm"),))
    assert student.references(SCALE) == (exactly(paper_retrieval(SCALE)),)
    assert student.teachers(SCALE) == {Checkpoint("main")}
    assert Ensemble((Checkpoint("taught-by-lm"),)).teachers(SCALE) == frozenset()


def test_the_learning_rate_of_a_family_is_chosen_once() -> None:
    family = [Learned(size=2, seed=1), Learned(lm=Checkpoint("seed-1", 20), sizing="loss")]
    assert {learned.pilot(SCALE) for learned in family} == {Learned()}
    others = [Learned(state="ffn"), Learned(metric="l2"), Learned(lam=0.25), Learned(soft=1.0)]
    assert len({learned.pilot(SCALE) for learned in others}) == 4
    twice = [step for learned in family for step in learned.cost(COSTS, SCALE)]
    assert sum(step.what == "main_att_learned: 2 other rates" for step in twice) == 2


@pytest.mark.parametrize(
    ("learned", "label"),
    [
        (Learned(size=3, sizing="loss"), "att, learned head, 3 embeddings a token, by loss"),
        (Learned(state="ffn", metric="l2"), "ffn, learned head, L2"),
        (Learned(lam=0.25), "att, learned head, loss of the mixture at λ = 0.25"),
        (
            Learned(component="mixture-of-softmaxes", size=2),
            "att, mixture of 2 softmaxes, own embedding",
        ),
        (
            Learned(state="both", component="mlp", size=8, soft=0.5),
            "att and ffn, MLP, inner width 8, 50% taught by neighbors",
        ),
        (
            Learned(component="clusters", metric="l2", size=0.125, fitted=False),
            "att, 0.125V clusters",
        ),
        (Learned(lm=Checkpoint("main", 20)), "main at update 20: att, learned head"),
        (Learned(lm=Checkpoint("wide")), "wide: att, learned head"),
    ],
)
def test_labels_of_learned_components(learned: Learned, label: str) -> None:
    assert learned.label == label


def test_seeds_of_a_component_have_one_label() -> None:
    assert Learned(seed=2).label == Learned().label


def test_labels_of_lists() -> None:
    retrieved = TokenList(retrieved=EXACT, k=64, score="distance", duplicates=False)
    assert retrieved.label == "tokens of 64 neighbors by att, scored by L2 to W_sm, each once"
    assert retrieved.name == "main_token-list_retrieved-att_k-64_score-distance_duplicates-False"
    assert TokenList(lm=Checkpoint("seed-1"), k=8).label.startswith("seed-1: the LM's own 8")


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="must be of one LM"):
        Combined((Learned(), Learned(lm=Checkpoint("seed-1"))))
    with pytest.raises(ValueError, match="must be of one LM"):
        Combined()
    with pytest.raises(ValueError, match="those of retrieved tokens"):
        TokenList(k=8, score="distance")


def test_only_reachability_reads_no_text() -> None:
    assert [kind for kind, of in KINDS.items() if not of.reads_texts] == [Reachability.kind]


def test_a_record_of_each_kind_is_found_by_its_condition() -> None:
    results = results_of({example.condition: example.measurement for example in EXAMPLES})
    assert list(results) == [example.condition for example in EXAMPLES]
    for example in EXAMPLES:
        assert results.measurement(example.condition) is example.measurement
        assert results.of_kind(type(example.condition)) == [example.condition]
        assert record_of(example.condition, example.measurement).kind == example.condition.kind
    assert FullDatastore(state="ffn") not in results
