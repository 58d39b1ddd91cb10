"""All recipes, in the order of the paper, then ours. Each file answers one question; each function
returns data."""

from collections.abc import Callable

from knnlm.errors import unknown
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
    sceptic,
    sizes,
    softmaxes,
    substitutes,
    temperature,
    words,
)
from knnlm_paper.rows import Recipe
from knnlm_paper.scales import Scale

_ALL: tuple[Callable[[Scale], Recipe], ...] = (
    baselines.recipe,
    recompute.recipe,
    sizes.recipe,
    temperature.recipe,
    models.recipe,
    words.recipe,
    regimes.recipe,
    sceptic.neighbours,
    sceptic.approximations,
    sceptic.components,
    audit.zeros,
    audit.sign,
    audit.precision,
    audit.norm,
    substitutes.recipe,
    capacity.recipe,
    adaptive.recipe,
    softmaxes.recipe,
    clusters.recipe,
    interpolated.recipe,
    beyond.recipe,
    sceptic.unmasked,
    ruled_out.metric,
    ruled_out.sparsity,
    ruled_out.location,
    ruled_out.stolen,
    ensembling.ensembles,
    ensembling.memorised,
    ensembling.soft_labels,
    ensembling.together,
)


def recipes(scale: Scale) -> tuple[Recipe, ...]:
    """Every recipe at this scale."""
    return tuple(make(scale) for make in _ALL)


def chosen(scale: Scale, names: list[str]) -> tuple[Recipe, ...]:
    """The recipes of these names, labels or tables ("table3"); "all" is all of them."""
    every = recipes(scale)
    known: dict[str, list[Recipe]] = {}
    for r in every:
        for label in (r.name, *r.labels):
            known.setdefault(label, []).append(r)
    for label, rows in published().items():
        place = rows[0].where.split(",")[0].lower().replace(" ", "")  # "Table 3, section 5.1"
        if place.startswith("table"):
            known[place] = known[label]
    for name in names:
        if name != "all" and name not in known:
            raise unknown("recipe", name, ["all", *known], "see 'knnlm reproduce --list'")
    if "all" in names:
        return every
    wanted = [r for name in names for r in known[name]]
    return tuple(r for r in every if r in wanted)
