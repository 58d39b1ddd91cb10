"""Results: the records of a folder, opened once, and the questions that claims and reports ask.

    results = Results.open(Path("docs/results/laptop"))
    results.ppl(KNN(exactly(paper_retrieval(results.scale))), "own_tau")

Points are those of measurement.py. Needs no torch."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from knnlm.errors import DamagedError, KnnlmError
from knnlm.experiments.condition import M
from knnlm.experiments.provenance import Provenance
from knnlm.experiments.records import CLAIM, RECORDS, Record, load_records, read_claim
from knnlm.typed_json import FieldError, from_json
from knnlm_paper.conditions import KINDS, PaperCondition
from knnlm_paper.scales import Scale, scale_named, with_models

C = TypeVar("C", bound=PaperCondition[Any])
_LM_POINTS = {"base": "ppl", "calibrated": "calibrated_ppl"}


class Results:
    """What was measured at a scale.

    Args:
        scale: The scale.
        records: Its records, by the names of their conditions.
    """

    def __init__(self, scale: Scale, records: Mapping[str, Record[Any]]) -> None:
        self.scale, self.records = scale, dict(records)

    @classmethod
    def open(cls, folder: Path, scale: Scale | None = None) -> "Results":
        """The results of a folder.

        Args:
            folder: Where `knnlm reproduce` keeps them.
            scale: The scale that they must be of; None is whichever they are of. LMs that were
                added by `--model` become part of it.

        Raises:
            KnnlmError: The folder holds no results, those of another scale, or records that are
                damaged or of another format.
        """
        name = "SCALE" if scale is None else scale.name
        if not (folder / CLAIM).is_file():
            run = f"knnlm reproduce all --scale {name} --out {folder}"
            raise KnnlmError(f"{folder} holds no results: run '{run}' first")
        claim = read_claim(folder)
        if scale is not None and claim.scale != name:
            raise KnnlmError(
                f"{folder} holds results of scale {claim.scale}: add --scale {claim.scale}"
            )
        opened = scale or scale_named(claim.scale)
        known = {lm.name for lm in opened.others}
        more = [source for name, source in claim.others.items() if name not in known]
        records = load_records(folder, KINDS)
        for file_name, record in records.items():
            if problem := _problem(file_name, record, opened.name):
                raise DamagedError(
                    f"{folder / RECORDS / file_name}.json is {problem}: restore it, or delete it "
                    "and measure its condition again"
                )
        return cls(with_models(opened, more), records)

    def __len__(self) -> int:
        return len(self.records)

    def __contains__(self, condition: PaperCondition[Any]) -> bool:
        """Whether a condition was measured."""
        return _name(condition) in self.records

    def __iter__(self) -> Iterator[PaperCondition[Any]]:
        """All conditions that were measured."""
        return iter(self._conditions)

    def only(self, conditions: Iterable[PaperCondition[Any]]) -> "Results":
        """The same with some of the conditions alone, as far as they were measured."""
        names = {condition.name for condition in conditions}
        return Results(self.scale, {name: r for name, r in self.records.items() if name in names})

    def of_kind(self, kind: type[C]) -> list[C]:
        """All conditions of a kind that were measured."""
        return [condition for condition in self._conditions if isinstance(condition, kind)]

    @cached_property
    def _conditions(self) -> list[PaperCondition[Any]]:
        return [from_json(KINDS[r.kind], r.settings, "settings") for r in self.records.values()]

    def record(self, condition: PaperCondition[M]) -> Record[M]:
        """The record of a condition.

        Raises:
            KnnlmError: It was not measured.
        """
        if condition not in self:
            raise KnnlmError(
                f"{condition.name} was not measured at scale {self.scale.name}: run its experiment "
                "first (see 'knnlm reproduce --list')"
            )
        return self.records[_name(condition)]

    def measurement(self, condition: PaperCondition[M]) -> M:
        """The measurement of a condition.

        Raises:
            KnnlmError: It was not measured.
        """
        return self.record(condition).measurement

    def find(self, condition: PaperCondition[M]) -> M | None:
        """The measurement of a condition; None where it was not measured."""
        return self.measurement(condition) if condition in self else None

    def provenance(self, condition: PaperCondition[Any]) -> Provenance:
        """How a condition's record was made."""
        return self.record(condition).provenance

    def ppl(self, condition: PaperCondition[Any], point: str) -> float:
        """Test perplexity per token at a point; infinite where it holds a token impossible.

        Raises:
            KnnlmError: The condition was not measured.
            ValueError: Its kind has no such point.
        """
        measurement = self.measurement(condition)
        if point in _LM_POINTS:
            value = getattr(getattr(measurement, "base", None), _LM_POINTS[point], None)
        else:
            value = getattr(getattr(measurement, point, None), "ppl", None)
        if value is None:
            raise ValueError(f"a measurement of kind {condition.kind} has no point {point}")
        return float(value)

    def word_ppl(self, condition: PaperCondition[Any], point: str) -> float:
        """The same per word."""
        pieces = self.tokens(condition) / self.words(condition)
        return float(self.ppl(condition, point) ** pieces)

    def tokens(self, condition: PaperCondition[Any]) -> int:
        """Of the test text, as far as they were searched for."""
        return int(self.measurement(condition).base.tokens)

    def words(self, condition: PaperCondition[Any]) -> int:
        """As many words as those tokens are."""
        return int(self.measurement(condition).base.words)

    def document_tokens(self, condition: PaperCondition[Any]) -> tuple[int, ...]:
        """Tokens of each document of the test text."""
        tokens: tuple[int, ...] = self.measurement(condition).documents.tokens
        return tokens

    def log_likelihoods(
        self, condition: PaperCondition[Any], point: str
    ) -> tuple[float, ...] | None:
        """Σ log p of each document of the test text at a point; None where the condition was not
        measured, or holds a token impossible there."""
        if condition not in self:
            return None
        documents = getattr(self.measurement(condition), "documents", None)
        return None if documents is None else documents.log_likelihood.get(point)

    def lm_seeds(self, condition: C) -> list[C]:
        """A condition of the main LM for every seed of the LM that was measured; of another LM
        itself alone."""
        lms = self.scale.seeds if condition.lm.name == self.scale.seeds[0] else (condition.lm.name,)
        return [moved for lm in lms if (moved := condition.with_lm(lm)) in self]

    def learning_seeds(self, condition: C) -> list[C]:
        """A condition for every start that it was learned from, from the first on; itself alone
        where nothing is learned."""
        measured: list[C] = []
        while (moved := condition.with_seed(len(measured))) in self and moved not in measured:
            measured.append(moved)
        return measured

    def seeds(self, condition: C) -> list[C]:
        """A condition for every seed that was measured: of what is learned, where something is,
        else of the LM."""
        if condition.has_seed:
            return self.learning_seeds(condition)
        return self.lm_seeds(condition)

    def mean_ppl(self, condition: PaperCondition[Any], point: str) -> float:
        """The mean of test perplexity over all seeds that were measured; NaN where none was."""
        return _mean([self.ppl(seed, point) for seed in self.seeds(condition)])

    def mean_word_ppl(self, condition: PaperCondition[Any], point: str) -> float:
        """The same per word."""
        return _mean([self.word_ppl(seed, point) for seed in self.seeds(condition)])


def _problem(file_name: str, record: Record[Any], scale: str) -> str:
    """What is wrong with a record in a folder of results of a scale, or ""."""
    try:
        condition = from_json(KINDS[record.kind], record.settings, "settings")
    except FieldError as error:
        return f"no record of this version ({error})"
    if record.scale != scale:
        return f"of scale {record.scale}, not {scale}"
    for name in (record.condition, condition.name):
        if name != file_name:
            return f"the record of another condition ({name})"
    return ""


@cache
def _name(condition: PaperCondition[Any]) -> str:
    """Claims ask for the same few hundred conditions again and again."""
    return condition.name


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
