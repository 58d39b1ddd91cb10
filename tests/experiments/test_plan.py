"""A plan has every step once and counts what can be counted by hand."""

import pytest

from knnlm.experiments import BaseLM, Checkpoint, ExistingLM, SearchSpec
from knnlm.experiments.plan import SLOWER, Costs, matrix_speed, timed
from knnlm.experiments.texts import Sizes
from knnlm.models.presets import SMOKE

LMS: list[BaseLM | ExistingLM] = [
    BaseLM("main", SMOKE),
    ExistingLM("given", "somewhere", 2, 8, 100),
]
COSTS = Costs(LMS, Sizes(1000, 20, 30))
INDEX = SearchSpec(exact=False, factory="IVF16,PQ4np", nprobe=4)


def test_only_lms_that_are_not_there_are_trained() -> None:
    (step,) = COSTS.training(["main", "given", "main"])
    assert step.kind == "train"
    assert step.what.startswith(f"main: {SMOKE.steps:,} updates")


def test_a_text_costs_its_tokens_twice() -> None:
    whole = COSTS.building(Checkpoint("given"))
    assert whole.what == "given: 1,050 entries of 8"
    assert whole.seconds == pytest.approx(SLOWER["build"] * 2 * 2 * 12 * 2 * 8**2 * 1050)
    assert whole.bytes == 1050 * (2 * 2 * 8 + 12)
    texts = COSTS.building(Checkpoint("given", 7), datastore=False)
    assert texts.what == "given at update 7: 50 entries of 8, no datastore"


def test_an_index_is_built_before_its_search() -> None:
    steps = COSTS.searching({SearchSpec(): 8, INDEX: 4})
    assert [step.kind for step in steps] == ["search", "index", "search"]
    exact, index, approximate = steps
    assert exact.seconds == pytest.approx(SLOWER["exact"] * 2 * 50 * 1000 * SMOKE.width)
    assert exact.bytes == 50 * 8 * 8
    assert index.bytes == 1000 * (4 + 8)
    assert approximate.seconds == pytest.approx(SLOWER["lookup"] * 50 * 1000 * 4 / 16 * 4)


def test_derived_datastores_are_counted_once() -> None:
    part = SearchSpec(fraction=0.5, draw=1)
    steps = COSTS.deriving([SearchSpec(), part, part._replace(metric="ip"), INDEX])
    assert [step.what for step in steps] == ["main att, 50% of the entries, draw 1"]
    assert steps[0].bytes == 500 * (2 * SMOKE.width + 12)
    assert COSTS.entries(SearchSpec(zeros=0.5)) == 2000
    assert COSTS.width(SearchSpec(width=3)) == 3


def test_seconds_are_operations_over_speed() -> None:
    plan = timed(COSTS.searching({SearchSpec(): 8}), conditions=3, speed=1e6)
    assert plan.conditions == 3
    assert plan.seconds == pytest.approx(SLOWER["exact"] * 2 * 50 * 1000 * SMOKE.width / 1e6)
    assert plan.bytes == 50 * 8 * 8
    assert matrix_speed(64, 0.01) > 1e6
