"""Recipes → records on disk (experiments/runner.py), at a scale of the paper; then the report."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from knnlm.errors import KnnlmError, UsageError
from knnlm.experiments.condition import Condition
from knnlm.experiments.records import CLAIM, WORK, ResultsFolder, make_claim, read_claim
from knnlm.experiments.runner import Outcome, run
from knnlm.experiments.searches import largest_k
from knnlm_paper.conditions import RowCondition, unique_rows
from knnlm_paper.experiments import recipes as every_recipe
from knnlm_paper.measure import Bench
from knnlm_paper.rows import Recipe
from knnlm_paper.scales import Scale, texts, with_models
from knnlm_paper.teaching import soft_labels
from knnlm_paper.workshop import Workshop


def reproduce(
    recipes: Iterable[Recipe],
    scale: Scale,
    out: Path,
    data: Path | None,
) -> Outcome:
    """Measure every row that `out` does not hold yet."""
    check_data(scale, data)
    chosen = list(recipes)
    read, bench, results = texts(scale, data), cache(Bench), ResultsFolder(out)
    conditions = [RowCondition(row, scale, bench) for row in unique_rows(chosen)]
    known = [RowCondition(row, scale, bench) for row in unique_rows(every_recipe(scale))]

    def command(condition: Condition[Workshop]) -> str:
        return _command(chosen, condition, scale, data)

    with results.claimed(
        make_claim(scale.name, read, (*scale.lms, *scale.others), scale.eval_rows)
    ):
        counts = largest_k(condition.searches for condition in conditions)
        workshop = Workshop(scale, read, out / WORK, counts, soft_labels)
        return run(conditions, workshop, results, scale=scale.name, command=command, known=known)


def check_data(scale: Scale, data: Path | None) -> None:
    """Refuse a folder that is not there, or one for a scale that has its text with it."""
    if data is None:
        return
    if scale.text == "embedded":
        raise UsageError(
            f"scale {scale.name} uses the embedded text: leave out --data, or choose laptop or "
            "paper"
        )
    if not data.is_dir():
        raise UsageError(
            f"there is no folder {data}: give the folder of wiki.train.tokens with --data"
        )
    if not (data / "wiki.train.tokens").is_file():
        raise UsageError(
            f"{data} has no wiki.train.tokens: give the folder of a WikiText with --data"
        )


def check_scale(folder: Path, scale: Scale) -> None:
    """Refuse a folder that holds no results, or those of another scale."""
    if not (folder / CLAIM).is_file():
        run = f"knnlm reproduce all --scale {scale.name} --out {folder}"
        raise KnnlmError(f"{folder} holds no results: run '{run}' first")
    if (held := read_claim(folder).scale) != scale.name:
        raise KnnlmError(f"{folder} holds results of scale {held}: add --scale {held}")


def with_known_models(folder: Path, scale: Scale) -> Scale:
    """The scale with the further LMs that the folder has results of."""
    known = {lm.name for lm in scale.others}
    sources = read_claim(folder).others
    return with_models(scale, [source for name, source in sources.items() if name not in known])


def _command(
    recipes: list[Recipe], condition: Condition[Workshop], scale: Scale, data: Path | None
) -> str:
    """The command that makes this row, wherever one's folders are."""
    name = next(r.name for r in recipes if condition.name in {row.name for row in r.rows})
    folder = f" --data {data.name}" if data is not None else ""
    other = scale.other(condition.lm.lm)
    model = ""
    if other is not None and name == "models":  # of a folder its own name, not where it is
        model = (
            f" --model {Path(other.source).name if Path(other.source).exists() else other.source}"
        )
    return f"knnlm reproduce {name} --scale {scale.name}{folder}{model}"
