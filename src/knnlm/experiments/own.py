"""An experiment of one's own: conditions, an LM and a text in, measurements out.

OUT/records/<name>.json    one record for each condition; OUT/work, the work that they share
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from knnlm.api import without_overlap
from knnlm.errors import UsageError
from knnlm.experiments.base_lms import MAIN, ExistingLM
from knnlm.experiments.condition import Condition
from knnlm.experiments.lms import LMs
from knnlm.experiments.records import WORK, ResultsFolder, make_claim
from knnlm.experiments.runner import run
from knnlm.experiments.searches import largest_k
from knnlm.experiments.texts import Texts
from knnlm.experiments.workspace import STORE, Workspace
from knnlm.progress import no_messages
from knnlm.text import Text, open_text, text_as_json

M = TypeVar("M")


def run_experiment(
    conditions: Sequence[Condition[Workspace, M]],
    *,
    model: str | Path,
    text: Text | Texts,
    out: str | Path,
    name: str = "own",
) -> list[M]:
    """Measure conditions of one LM and one text; what was measured before is read.

    The training part of the text is stored, the validation part is what conditions tune on, and
    the test part is what they report. A condition whose base LM is not said has this one.

    Args:
        conditions: What to measure. Their names must differ.
        model: A folder, a hub name or a GGUF file.
        text: A text that has three parts: `Folder(PATH, split=(80, 10, 10))`, `HubDataset(NAME)`,
            `PythonDocs()` or a WikiText folder; or `Texts`, which has them already.
        out: The results folder. A run that was interrupted there resumes.
        name: What records call this experiment.

    Returns:
        The measurement of each condition, in their order.

    Raises:
        KnnlmError: The folder holds other things or other results.
        UsageError: The text has no parts, its validation or test part is in the training part, or
            two conditions share a name.

    Example:
        >>> run_experiment(                                     # doctest: +SKIP
        ...     [KNNCondition(key=key, metric="l2", exact=True, k=64) for key in ("att", "ffn")],
        ...     model="HuggingFaceTB/SmolLM2-135M",
        ...     text=Folder("docs", split=(80, 10, 10)),
        ...     out="att-or-ffn",
        ... )
    """
    _check_names(conditions)
    texts, lms = _open_texts(text), [ExistingLM(MAIN.name, str(model))]
    results, work = ResultsFolder(Path(out)), Path(out) / WORK
    with results.claimed(make_claim(name, texts, lms)):
        workspace = Workspace(
            work,
            texts,
            LMs(lms, texts, lambda lm: work / "lm" / lm),
            largest_k=largest_k(condition.searches for condition in conditions),
        )
        workspace.texts = _without_copies(workspace)
        run(conditions, workspace, results, scale=name, command=lambda _: _this_program())
        return [_measurement(results, condition) for condition in conditions]


def _check_names(conditions: Sequence[Condition[Workspace, Any]]) -> None:
    seen: dict[str, Condition[Workspace, Any]] = {}
    for condition in conditions:
        if seen.setdefault(condition.name, condition) != condition:
            raise UsageError(
                f"two different conditions are called {condition.name}: let the name say in what "
                "they differ"
            )


def _open_texts(text: Text | Texts) -> Texts:
    if isinstance(text, Texts):
        return text
    if text_as_json(text) is None:
        raise UsageError(
            f"{text} has no parts to store, tune on and report on: divide it with "
            "`Folder(PATH, split=(80, 10, 10))`"
        )
    train = open_text(text, "train")
    with no_messages():  # what is in the text was said once
        valid, test = open_text(text, "valid"), open_text(text, "test")
    return Texts(train, valid, test, stop=valid)


def _without_copies(workspace: Workspace) -> Texts:
    """The texts without documents that are stored too, which would retrieve themselves."""
    store, lm = workspace.entries(*MAIN, STORE), workspace.lms.model(*MAIN)
    texts = workspace.texts
    valid, test = (
        without_overlap(store, part, lm, own_split=True) for part in (texts.valid, texts.test)
    )
    return texts._replace(valid=valid, test=test)


def _measurement(results: ResultsFolder, condition: Condition[Workspace, M]) -> M:
    record = results.read(condition)
    assert record is not None, "the run measured it"
    return record.measurement


def _this_program() -> str:
    """The command that runs the experiment, for its records."""
    return shlex.join(["python", *sys.argv])
