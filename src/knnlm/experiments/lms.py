"""The base LMs of an experiment by name: trained when they are first needed, each once, or opened
where they exist already."""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.experiments.base_lms import AboutLM, BaseLM, Checkpoint, ExistingLM
from knnlm.experiments.texts import Texts
from knnlm.files import read_json
from knnlm.models import CHECKPOINTS, TRAINING_RECORD, LanguageModel, load_model
from knnlm.stored_fields import Count, Loss, Positive, Within, check_fields
from knnlm.training import Teacher, TrainingResult, train


class _Preset(TypedDict):
    width: Positive
    steps: Positive
    batch: Positive
    context: Positive


class _Trained(TypedDict):
    parameters: Positive
    train_tokens: Positive
    steps: Positive
    best_step: Count
    tokens_per_second: Annotated[float, Within(1e-9, 1e15)]


class _Point(TypedDict):
    step: Count
    valid_loss: Loss
    train_loss: NotRequired[Loss]


class _Record(TypedDict):
    """What training wrote of an LM, as far as it is read here."""

    preset: _Preset
    trained: _Trained
    history: list[_Point]


class LMs:
    """The LMs of an experiment by name, trained when they are first needed.

    Args:
        lms: All of them.
        texts: What is trained on, and which validation text ends it.
        folder: Where the LM of a name is kept.
        teachers: Makes the teacher of a `BaseLM.teacher`.
    """

    def __init__(
        self,
        lms: Iterable[BaseLM | ExistingLM],
        texts: Texts,
        folder: Callable[[str], Path],
        teachers: Callable[[str], Teacher] | None = None,
    ) -> None:
        self.by_name = {lm.name: lm for lm in lms}
        self.texts, self.folder = texts, folder
        self.seconds = 0.0
        """What this process spent on training."""
        self._teachers = teachers
        self._teacher_of: dict[str, Teacher] = {}
        self._trained: dict[str, TrainingResult] = {}
        self._open: tuple[Checkpoint, LanguageModel] | None = None

    def check(self, name: str, step: int | None = None) -> None:
        """Refuse an LM that the experiment does not have.

        Raises:
            UsageError: There is none of that name, or it is not trained here and an update is
                asked for.
        """
        if name not in self.by_name:
            raise unknown("LM", name, self.by_name)
        if step is not None and isinstance(self.by_name[name], ExistingLM):
            raise UsageError(
                f"LM {name} is not trained here, so there is no update {step} of it: leave out "
                "`step`"
            )

    def model(self, name: str, step: int | None = None) -> LanguageModel:
        """A base LM, trained if it is not; the last one asked for stays open."""
        self.check(name, step)
        wanted = Checkpoint(name, step)
        if self._open is None or self._open[0] != wanted:
            self._open = (wanted, self._load(wanted))
        return self._open[1]

    def trained(self, name: str) -> TrainingResult:
        """How the training of an LM ended; it is trained, or its training continued, if it is
        not."""
        if name not in self._trained:
            lm = self.by_name[name]
            assert isinstance(lm, BaseLM), f"{name} is not trained here"
            begin = None if lm.begin is None else self.model(lm.begin)
            teacher = None if lm.teacher is None else self._teacher(lm.teacher)
            began = time.monotonic()
            try:
                self._trained[name] = train(
                    self.texts.train,
                    self.texts.stop,
                    lm.preset,
                    self.folder(name),
                    seed=lm.seed,
                    initial_model=begin,
                    teacher=teacher,
                )
            finally:
                self.seconds += time.monotonic() - began
        return self._trained[name]

    def about(self, name: str, step: int | None = None) -> AboutLM:
        """What is known of an LM and its training."""
        lm = self.by_name[name]
        if isinstance(lm, ExistingLM):
            parameters = self.model(name, step).model.parameters()
            return AboutLM(parameters=sum(p.numel() for p in parameters))
        record = self._record(name)
        at = record["trained"]["best_step"] if step is None else step
        point = next((entry for entry in record["history"] if entry["step"] == at), None)
        if point is None or (lm.teacher is None and "train_loss" not in point):
            raise KnnlmError(
                f"{self.folder(name) / TRAINING_RECORD} says nothing of update {at}: delete its "
                "folder and train again"
            )
        return AboutLM(
            parameters=record["trained"]["parameters"],
            width=record["preset"]["width"],
            train_tokens=record["trained"]["train_tokens"],
            steps=record["trained"]["steps"],
            step=at,
            train_ppl=math.exp(point["train_loss"]) if lm.teacher is None else None,
            valid_ppl=math.exp(point["valid_loss"]),
        )

    def training_seconds(self, name: str) -> int:
        """How long an LM was trained, by whichever process; 0 for one that existed already."""
        if isinstance(self.by_name[name], ExistingLM):
            return 0
        record = self._record(name)
        preset = record["preset"]
        tokens = preset["steps"] * preset["batch"] * preset["context"]
        return round(tokens / record["trained"]["tokens_per_second"])

    def seed(self, name: str) -> int | None:
        """The seed of an LM that is trained here."""
        lm = self.by_name[name]
        return lm.seed if isinstance(lm, BaseLM) else None

    def _record(self, name: str) -> "_Record":
        """What training wrote of an LM."""
        file = self.folder(name) / TRAINING_RECORD
        return check_fields(_Record, read_json(file), file, "delete its folder and train again")

    def _load(self, wanted: Checkpoint) -> LanguageModel:
        lm = self.by_name[wanted.name]
        if isinstance(lm, ExistingLM):
            return load_model(lm.source)
        folder = self.trained(lm.name).path
        return load_model(
            folder if wanted.step is None else folder / CHECKPOINTS / str(wanted.step)
        )

    def _teacher(self, name: str) -> Teacher:
        if name not in self._teacher_of:
            assert self._teachers is not None, f"nothing makes the teacher {name}"
            self._teacher_of[name] = self._teachers(name)
        return self._teacher_of[name]
