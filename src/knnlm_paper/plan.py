"""What a reproduction would do: the shared work of experiments/plan.py, and what only the paper's
rows need."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from knnlm.experiments.lms import Checkpoint
from knnlm.experiments.plan import SLOWER, Costs, Plan, Step, timed
from knnlm.experiments.searches import SearchSpec
from knnlm.training.clustering import POINTS, ROUNDS
from knnlm.training.soft_targets import KEPT
from knnlm_paper.apprentice import first_of_family
from knnlm_paper.conditions import most_neighbours
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.rows import Combined, Learned, Listed, Reach, Row, Temperatures, Unmasked, lms_of
from knnlm_paper.scales import Scale
from knnlm_paper.workshop import search_of

_SOFTMAX, _EXPONENTIAL = 1000.0, 60.0  # slower than matrix products, as in SLOWER
_TAUS = 50  # passes over the neighbours for each row, about
_TAUS_LEARNED = 30  # of a substitute, over the LM and over the calibrated one
_TEMPERATURES = 80
_PASSES_UNMASKED, _TAUS_A_PASS = 8, 2  # over the LM and over the calibrated one
_REACH_ROUNDS = 10  # in which the words that are left become fewer


def plan(rows: Iterable[Row], scale: Scale, speed: float | None = None) -> Plan:
    """The steps that these rows need, each once."""
    chosen = list(rows)
    costs = Costs((*scale.lms, *scale.others), scale.sizes)
    searches = most_neighbours(chosen, scale)
    steps = [
        *_shared(chosen, searches, costs),
        *_learning(chosen, scale, costs),
        *(_reach(row, scale) for row in chosen if isinstance(row, Reach)),
        *(_unmasked(row, scale) for row in chosen if isinstance(row, Unmasked)),
        _measuring(chosen, scale),
    ]
    return timed(steps, len(chosen), speed)


def _shared(rows: Sequence[Row], searches: dict[SearchSpec, int], costs: Costs) -> list[Step]:
    """LMs, stores, further texts, derived stores, indexes and searches."""
    states = {(*search.checkpoint, search.other_state) for search in searches}
    states |= {(*row.lm, "") for row in rows if not isinstance(row, Reach)}
    ordered = sorted(states, key=lambda state: (state[0], state[1] or 0, state[2]))
    further = sorted(
        {lm for row in rows for lm in lms_of(row)} - {(lm, step) for lm, step, _ in ordered},
        key=lambda lm: (lm[0], lm[1] or 0),
    )
    read = {lm for row in rows if not isinstance(row, Reach) for lm in lms_of(row)}
    return [
        *costs.training([*(lm for lm, _, _ in ordered), *(lm for lm, _ in further)]),
        *(costs.building(Checkpoint(lm, step), other) for lm, step, other in ordered),
        *(costs.building(Checkpoint(*lm), datastore=False) for lm in further if lm in read),
        *costs.deriving(searches),
        *costs.searching(searches),
    ]


def _learning(rows: Sequence[Row], scale: Scale, costs: Costs) -> list[Step]:
    """Each substitute once, and once more for every other learning rate that is tried on the first
    of its family."""
    wanted = dict.fromkeys(
        part
        for row in rows
        for part in (row.parts if isinstance(row, Combined) else (row,))
        if isinstance(part, Learned)
    )
    found = [_learned(row, scale, costs, 1) for row in wanted]
    others = len(scale.learning.rates)  # one beyond them, as a rule
    pilots = dict.fromkeys(first_of_family(row, scale) for row in wanted if row.fitted)
    found += [
        _learned(row, scale, costs, others)._replace(what=f"{row.name}: {others} other rates")
        for row in pilots
    ]
    teachers = {row.lm for row in wanted if row.soft}
    if any(
        scale.other(lm) is None and scale.lm(lm).teacher == "knn-lm"
        for row in rows
        for lm, _ in lms_of(row)
    ):
        teachers.add(("main", None))
    for lm in sorted(teachers, key=str):
        arm = replace(exactly(paper_arm(scale, lm[0])), step=lm[1])
        teacher = costs.search(search_of(arm), arm.k)
        times = scale.sizes.train / (scale.sizes.valid + scale.sizes.test)
        found.append(
            Step(
                "search",
                f"{lm[0]}: neighbours of all {scale.sizes.train:,} stored rows in other documents",
                teacher.seconds * times,
                scale.sizes.train * 6 * KEPT,
            )
        )
    return found


def _learned(row: Learned, scale: Scale, costs: Costs, times: int) -> Step:
    _, embedding = costs.parameters(row.of)
    width = scale.shape(row.of).width
    inside = 3 * row.size * width + 2 * width**2 if row.kind == "network" else 0
    numbers = inside + embedding * (1 if row.kind == "network" else row.size)
    rows = scale.sizes.train
    if row.kind == "clusters" and not row.fitted:
        count = scale.clusters(row.of, row.size)
        looked, numbers = min(rows, POINTS * count), count * width
        work = SLOWER["kmeans"] * 2 * numbers * (ROUNDS * looked + rows)
    else:
        work = SLOWER["train"] * 4 * numbers * rows * scale.learning.epochs
    work += _TAUS_LEARNED * 2 * numbers * scale.sizes.valid / times
    return Step("learn", row.name, times * work, round(times * 16 * numbers))


def _reach(row: Reach, scale: Scale) -> Step:
    """All words against all others, in fp64, until each was found reachable; programmes for a few
    are not counted."""
    shape = scale.shape(row.of)
    work = _REACH_ROUNDS * 2 * 2 * shape.vocab_size**2 * shape.width
    return Step("reach", f"{row.of}: {shape.vocab_size:,} words of {shape.width}", work, 0)


def _unmasked(row: Unmasked, scale: Scale) -> Step:
    """All scores of both texts, and their exponentials at every τ that is looked at closely."""
    rows, queries = scale.sizes.train, scale.sizes.valid + scale.sizes.test
    looks = _PASSES_UNMASKED * scale.sizes.valid + scale.sizes.test
    products = 2 * scale.shape(row.of).width
    work = rows * looks * (products + _EXPONENTIAL * _TAUS_A_PASS)
    return Step("unmasked", f"{row.name}: {queries:,} tokens, {rows:,} rows", work, 0)


def _measuring(rows: Iterable[Row], scale: Scale) -> Step:
    chosen = list(rows)
    queries = scale.sizes.valid + scale.sizes.test
    work = queries * sum(
        _SOFTMAX * (_TEMPERATURES if isinstance(row, Temperatures) else _TAUS) * k
        for row in chosen
        for k in (
            *(arm.k for arm in row.arms),
            *((row.k,) if isinstance(row, Listed) and not row.arms else ()),
        )
    )
    return Step(
        "measure",
        f"{len(chosen)} rows: τ and λ, perplexities, intervals",
        work,
        8_000 * len(chosen),
    )
