"""Experiments → records on disk (the library's runner), at a scale of the paper."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from knnlm.errors import UsageError
from knnlm.experiments.condition import Condition
from knnlm.experiments.records import WORK, ResultsFolder, make_claim
from knnlm.experiments.runner import Outcome, run
from knnlm_paper.experiments import all_experiments, unique_conditions
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.measuring.workspace import PaperWorkspace
from knnlm_paper.plan import needed_searches
from knnlm_paper.scales import Scale, texts


def reproduce(
    experiments: Iterable[Experiment],
    scale: Scale,
    out: Path,
    data: Path | None,
) -> Outcome:
    """Measure every condition that `out` does not hold yet.

    Args:
        experiments: Whose conditions.
        scale: At which scale.
        out: The results folder.
        data: A folder with `wiki.train.tokens` and its like; None reads WikiText from the hub.
    """
    check_data(scale, data)
    chosen = list(experiments)
    read, results = texts(scale, data), ResultsFolder(out)
    conditions = unique_conditions(chosen)

    def command(condition: Condition[PaperWorkspace, Any]) -> str:
        return _command(chosen, condition, scale, data)

    with results.claimed(make_claim(scale.name, read, (*scale.lms, *scale.others), scale.queries)):
        searches = needed_searches(conditions, scale)
        return run(
            conditions,
            PaperWorkspace(scale, read, out / WORK, searches),
            results,
            scale=scale.name,
            command=command,
            known=unique_conditions(all_experiments(scale)),
        )


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


def _command(
    experiments: Sequence[Experiment],
    condition: Condition[PaperWorkspace, Any],
    scale: Scale,
    data: Path | None,
) -> str:
    """The command that makes this record, wherever one's folders are."""
    name = next(e.name for e in experiments if condition.name in {c.name for c in e.conditions})
    folder = f" --data {data.name}" if data is not None else ""
    other = scale.other(condition.lm.name)
    model = ""
    if other is not None and name == "models":  # of a folder its own name, not where it is
        model = (
            f" --model {Path(other.source).name if Path(other.source).exists() else other.source}"
        )
    return f"knnlm reproduce {name} --scale {scale.name}{folder}{model}"
