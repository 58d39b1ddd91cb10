"""What a reproduction would do: the shared work of the library's plan, and the steps that the
conditions name."""

from collections.abc import Iterable, Sequence
from typing import Any

from knnlm.experiments.base_lms import Checkpoint
from knnlm.experiments.plan import Costs, Plan, Step, timed
from knnlm.experiments.searches import SearchSpec, largest_k
from knnlm_paper.conditions import PaperCondition
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale

_MEASURE = "measure"


def needed_searches(
    conditions: Iterable[PaperCondition[Any]], scale: Scale
) -> dict[SearchSpec, int]:
    """How many neighbors each search must find to serve all conditions, those whose τ they use
    included."""
    return largest_k(
        needed
        for condition in conditions
        for needed in (condition.searches, *({r.spec: r.k} for r in condition.references(scale)))
    )


def plan(
    conditions: Iterable[PaperCondition[Any]], scale: Scale, speed: float | None = None
) -> Plan:
    """The steps that these conditions need, each once.

    Args:
        conditions: What is to be measured.
        scale: The scale of the reproduction.
        speed: Operations per second; None measures those of this machine.
    """
    chosen = list(conditions)
    costs = Costs((*scale.lms, *scale.others), scale.sizes)
    own = [step for condition in chosen for step in condition.cost(costs, scale)]
    unique = {(step.kind, step.what): step for step in own if step.kind != _MEASURE}
    measuring = [step for step in own if step.kind == _MEASURE]
    steps = [
        *_shared(chosen, needed_searches(chosen, scale), costs),
        *_teaching(chosen, scale, costs),
        *unique.values(),
        Step(
            _MEASURE,
            f"{len(chosen)} conditions: τ and λ, perplexities, intervals",
            sum(step.seconds for step in measuring),
            sum(step.bytes for step in measuring),
        ),
    ]
    return timed(steps, len(chosen), speed)


def _shared(
    conditions: Sequence[PaperCondition[Any]], searches: dict[SearchSpec, int], costs: Costs
) -> list[Step]:
    """LMs, datastores, further texts, derived datastores, indexes and searches."""
    states = {(*search.checkpoint, search.other_state) for search in searches}
    states |= {(*condition.lm, "") for condition in conditions if condition.reads_texts}
    ordered = sorted(states, key=lambda state: (state[0], state[1] or 0, state[2]))
    stored = {Checkpoint(lm, step) for lm, step, _ in ordered}
    lms = {lm for condition in conditions for lm in (*condition.other_lms, condition.lm)}
    further = sorted(lms - stored, key=lambda lm: (lm.name, lm.step or 0))
    read = {lm for c in conditions if c.reads_texts for lm in (*c.other_lms, c.lm)}
    return [
        *costs.training([*(lm for lm, _, _ in ordered), *(lm.name for lm in further)]),
        *(costs.building(Checkpoint(lm, step), other) for lm, step, other in ordered),
        *(costs.building(lm, datastore=False) for lm in further if lm in read),
        *costs.deriving(searches),
        *costs.searching(searches),
    ]


def _teaching(conditions: Sequence[PaperCondition[Any]], scale: Scale, costs: Costs) -> list[Step]:
    """Neighbors of all entries in other documents, of each LM whose neighbors teach."""
    from knnlm.training.soft_targets import KEPT

    steps = []
    teachers = {lm for condition in conditions for lm in condition.teachers(scale)}
    for lm in sorted(teachers, key=str):
        retrieval = exactly(paper_retrieval(scale, *lm))
        search = costs.search(retrieval.spec, retrieval.k)
        times = scale.sizes.train / (scale.sizes.valid + scale.sizes.test)
        label = f"{lm.name}: neighbors of all {scale.sizes.train:,} entries in other documents"
        size = scale.sizes.train * 6 * KEPT
        steps.append(Step("search", label, search.seconds * times, size))
    return steps
