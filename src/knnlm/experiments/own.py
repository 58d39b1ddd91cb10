"""An experiment of one's own: conditions, an LM and a text in, measurements out.

OUT/records/<name>.json    one record for each condition; OUT/work, the work that they share
"""

import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from knnlm.api import without_overlap
from knnlm.argument_types import check_types
from knnlm.errors import UsageError
from knnlm.experiments.base_lms import MAIN, ExistingLM
from knnlm.experiments.checks import check_conditions
from knnlm.experiments.condition import Condition
from knnlm.experiments.lms import LMs
from knnlm.experiments.records import WORK, ResultsFolder, make_claim
from knnlm.experiments.runner import run
from knnlm.experiments.searches import largest_k
from knnlm.experiments.texts import Texts
from knnlm.experiments.workspace import STORE, Workspace
from knnlm.progress import no_messages
from knnlm.text import Document, Source, Text, open_text, text_as_json

M = TypeVar("M")


@check_types
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
    the test part is what they report. The LM is called "main", as conditions call theirs where
    they say nothing else.

    Args:
        conditions: What to measure. Their names must differ, also from those of other conditions
            in the results folder.
        model: A folder, a hub name or a GGUF file.
        text: A text that has three parts: `Folder(PATH, split=(80, 10, 10))`, `HubDataset(NAME)`,
            `PythonDocs()` or a WikiText folder; or `Texts`, which has them already.
        out: The results folder. A run that was interrupted there resumes.
        name: What records call this experiment.

    Returns:
        The measurement of each condition, in their order.

    Raises:
        KnnlmError: The model cannot be opened, the folder holds other things or other results, or
            a measurement cannot be written.
        UsageError: The text has no parts, its validation or test part is in the training part, two
            conditions share a name, or one names an LM, state or metric that is not known.

    Example:
        >>> run_experiment(                                     # doctest: +SKIP
        ...     [KNNCondition(key=key, metric="l2", exact=True, k=64) for key in ("att", "ffn")],
        ...     model="HuggingFaceTB/SmolLM2-135M",
        ...     text=Folder("docs", split=(80, 10, 10)),
        ...     out="att-or-ffn",
        ... )
    """
    texts, main = _open_texts(text), ExistingLM(MAIN.name, str(model))
    results, work = ResultsFolder(Path(out)), Path(out) / WORK
    lms = LMs([main], texts, lambda lm: work / "lm" / lm)
    check_conditions(conditions, lms)
    claim = make_claim(name, texts, [main])
    results.check(claim)
    if any(not results.file(condition.name).is_file() for condition in conditions):
        lms.model(*MAIN)  # one that cannot be opened claims no folder
    workspace = Workspace(
        work, texts, lms, largest_k=largest_k(condition.searches for condition in conditions)
    )
    valid, test = (_WithoutCopies(part, workspace) for part in (texts.valid, texts.test))
    workspace.texts = texts._replace(valid=valid, test=test)
    with results.claimed(claim):
        run(conditions, workspace, results, scale=name, command=lambda _: _this_program())
        return [_measurement(results, condition) for condition in conditions]


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


class _WithoutCopies:
    """A part of the text without documents that are stored too, which would retrieve themselves.

    They are looked for when the part is first read: records are read without it.

    Args:
        part: The validation or test part.
        workspace: Where the datastore is.
    """

    def __init__(self, part: Source, workspace: Workspace) -> None:
        self.part, self.workspace = part, workspace

    def describe(self) -> dict[str, Any]:
        """The part and what is left out of it."""
        return self._rest.describe()

    def __iter__(self) -> Iterator[Document]:
        return iter(self._rest)

    @cached_property
    def _rest(self) -> Source:
        store, lm = self.workspace.entries(*MAIN, STORE), self.workspace.lms.model(*MAIN)
        return without_overlap(store, self.part, lm, own_split=True)


def _measurement(results: ResultsFolder, condition: Condition[Workspace, M]) -> M:
    record = results.read(condition)
    assert record is not None, "the run measured it"
    return record.measurement


def _this_program() -> str:
    """The command that runs the experiment, for its records."""
    return shlex.join(["python", *sys.argv])
