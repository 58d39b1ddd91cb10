"""All experiments, in the order of the paper, then ours. Each file answers one question; each
function returns data."""

from collections.abc import Callable, Iterable
from typing import Any

from knnlm.errors import unknown
from knnlm.experiments.condition import grouped_by_lm
from knnlm_paper.conditions import PaperCondition
from knnlm_paper.expected import published
from knnlm_paper.experiments import (
    adaptive,
    audit,
    baselines,
    beyond,
    capacity,
    clusters,
    ensembling,
    interpolated,
    models,
    recompute,
    regimes,
    ruled_out,
    sizes,
    skeptic,
    softmaxes,
    substitutes,
    temperature,
    words,
)
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.scales import Scale

_ALL: tuple[Callable[[Scale], Experiment], ...] = (
    baselines.experiment,
    recompute.experiment,
    sizes.experiment,
    temperature.experiment,
    models.experiment,
    words.experiment,
    regimes.experiment,
    skeptic.neighbor_counts,
    skeptic.approximations,
    skeptic.components,
    audit.zeros,
    audit.sign,
    audit.precision,
    audit.norm,
    substitutes.experiment,
    capacity.experiment,
    adaptive.experiment,
    softmaxes.experiment,
    clusters.experiment,
    interpolated.experiment,
    beyond.experiment,
    skeptic.full_datastore,
    ruled_out.metric,
    ruled_out.sparsity,
    ruled_out.location,
    ruled_out.stolen,
    ensembling.ensembles,
    ensembling.memorized,
    ensembling.soft_labels,
    ensembling.together,
)


_EARLIER_NAMES = {
    "neighbours": "neighbor-counts",
    "unmasked": "full-datastore",
    "memorised": "memorized",
    "together": "both-reasons",
}
"""Names in the commands of older records, which still name an experiment."""


def all_experiments(scale: Scale) -> tuple[Experiment, ...]:
    """Every experiment at this scale."""
    return tuple(make(scale) for make in _ALL)


def unique_conditions(experiments: Iterable[Experiment]) -> list[PaperCondition[Any]]:
    """The conditions of several experiments, each once, those of one LM together so that it is
    opened once."""
    return grouped_by_lm(c for experiment in experiments for c in experiment.conditions)


def chosen(scale: Scale, names: list[str]) -> tuple[Experiment, ...]:
    """The experiments of these names, labels or tables ("table3"); "all" is all of them.

    Raises:
        UsageError: There is no experiment of a name.
    """
    every = all_experiments(scale)
    known: dict[str, list[Experiment]] = {}
    for experiment in every:
        for label in (experiment.name, *experiment.labels):
            known.setdefault(label, []).append(experiment)
    for label, printed in published().items():
        number = printed[0].where.split(",")[0].lower().replace(" ", "")  # "Table 3, section 5.1"
        if number.startswith("table"):
            known[number] = known[label]
    for earlier, name in _EARLIER_NAMES.items():
        known[earlier] = known[name]
    for name in names:
        if name != "all" and name not in known:
            choices = ["all", *sorted(known.keys() - _EARLIER_NAMES)]
            raise unknown("experiment", name, choices, "see 'knnlm reproduce --list'")
    if "all" in names:
        return every
    wanted = [experiment for name in names for experiment in known[name]]
    return tuple(experiment for experiment in every if experiment in wanted)
