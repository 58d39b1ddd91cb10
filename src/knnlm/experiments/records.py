"""A results folder: which experiment it belongs to, and one JSON record for each condition.

    OUT/scale.json           the scale, texts and LMs that these results are of; others are refused
    OUT/records/<name>.json  what was measured for one condition, and how it was made
    OUT/work/                the workspace (large; may be deleted when all records are there)

Files are replaced in one step and carry a checksum (files.py). A record has the fields of `Record`,
no more and no fewer; one of another format is refused. Needs no torch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple

from knnlm.errors import DamagedError, KnnlmError
from knnlm.experiments.base_lms import BaseLM, ExistingLM
from knnlm.experiments.condition import Condition, M, W
from knnlm.experiments.provenance import Provenance
from knnlm.experiments.texts import Texts
from knnlm.experiments.typed_json import FieldError, from_json, to_json
from knnlm.files import fingerprint, read_json, write_json, write_lock

FORMAT = 2
CLAIM, RECORDS, WORK = "scale.json", "records", "work"
_RECORDS_OF_FORMAT_1 = "rows"


@dataclass(frozen=True)
class Record(Generic[M]):
    """What was measured for a condition, and how it was made."""

    condition: str
    """Its name."""
    kind: str
    scale: str
    settings: dict[str, Any]
    """All fields of the condition, as JSON."""
    made_with: str | None
    """A fingerprint of what else the measurement depends on (`Condition.made_with`)."""
    measurement: M
    provenance: Provenance


def write_record(file: Path, record: Record[Any]) -> None:
    """Write a record, replacing the file in one step."""
    measurement = to_json(record.measurement)
    fields: dict[str, Any] = to_json(replace(record, measurement=measurement))
    write_json(file, {"format": FORMAT, **fields})


def read_record(file: Path, kinds: Mapping[str, type[Condition[Any, Any]]]) -> Record[Any]:
    """Read what `write_record` wrote.

    Args:
        file: The record.
        kinds: Classes of conditions, by their `kind`.

    Raises:
        DamagedError: The file is not what was written.
        KnnlmError: It has another format, or fields that its kind of condition does not have.
    """
    fields = read_json(file, newest_format=FORMAT)
    if (number := fields.pop("format", None)) != FORMAT:
        raise _earlier_format(file, number)
    try:
        record: Record[Any] = from_json(Record, fields)
        if (kind := kinds.get(record.kind)) is None:
            raise FieldError("kind", f"{record.kind} is not known")
        measurement = from_json(kind.measurement_type, record.measurement, "measurement")
    except FieldError as error:
        raise DamagedError(
            f"{file} is no record of this version ({error}): restore it, or delete it and measure "
            "its condition again"
        ) from error
    return replace(record, measurement=measurement)


def _earlier_format(path: Path, number: object) -> KnnlmError:
    return KnnlmError(
        f"{path} has format {number} and this knnlm reads format {FORMAT}: migrate the results of "
        "a reproduction with scripts/migrate_records.py, or measure again in another `out`"
    )


class Claim(NamedTuple):
    """What every record of a folder depends on beside its own condition."""

    scale: str
    text: list[dict[str, Any]]
    """Descriptions of the texts, and how many of their tokens are searched for."""
    lms: dict[str, str]
    """Fingerprints of how LMs are trained, by name."""
    others: dict[str, str]
    """Sources of LMs that exist already, by name."""


def make_claim(
    scale: str, texts: Texts, lms: Iterable[BaseLM | ExistingLM], queries: int | None = None
) -> Claim:
    """The claim of an experiment.

    Args:
        scale: Its name.
        texts: Its texts.
        lms: Its LMs.
        queries: Tokens of the validation and of the test text that are searched for; None is all.
    """
    every = list(lms)
    described = [text.describe() for text in (texts.train, texts.valid, texts.test)]
    return Claim(
        scale,
        [*described, {"queries": queries}],
        {lm.name: fingerprint(lm.describe()) for lm in every if isinstance(lm, BaseLM)},
        {lm.name: lm.source for lm in every if isinstance(lm, ExistingLM)},
    )


class ResultsFolder:
    """The records of one experiment.

    Args:
        path: The folder.
        own_names: Files and folders beside the records that the experiment itself keeps there.
    """

    def __init__(self, path: Path, own_names: Sequence[str] = (WORK,)) -> None:
        self.path, self.own_names = path, own_names

    @contextmanager
    def claimed(self, claim: Claim) -> Iterator[None]:
        """Hold the folder for one experiment, alone.

        Raises:
            KnnlmError: The folder holds other things or other results, or another process writes
                to it.
        """
        with write_lock(self.path):
            self._claim(claim)
            yield

    def file(self, name: str) -> Path:
        """The record of the condition of that name."""
        return self.path / RECORDS / f"{name}.json"

    def read(self, condition: Condition[W, M]) -> Record[M] | None:
        """The record of a condition, if it was measured.

        Raises:
            KnnlmError: It is damaged, or of another format.
        """
        file = self.file(condition.name)
        return read_record(file, {condition.kind: type(condition)}) if file.is_file() else None

    def write(self, record: Record[Any]) -> None:
        """Keep the record of a condition."""
        write_record(self.file(record.condition), record)

    def _claim(self, claim: Claim) -> None:
        """Records of different scales, texts or LMs do not belong in one folder; further LMs may
        join."""
        file = self.path / CLAIM
        if not file.is_file():
            known = (*self.own_names, RECORDS, ".lock")
            if strangers := [p.name for p in self.path.iterdir() if p.name not in known]:
                raise KnnlmError(
                    f"{self.path} is not empty ({strangers[0]} …): choose another `out`; nothing "
                    "was changed"
                )
            (self.path / RECORDS).mkdir(exist_ok=True)
            write_json(file, claim._asdict())
            return
        _refuse_format_1(self.path)
        before = read_claim(self.path)
        if difference := _difference(before, claim):
            raise KnnlmError(
                f"{self.path} holds results of {difference}: choose another `out`; nothing was "
                "changed"
            )
        joined = claim._replace(
            lms={**before.lms, **claim.lms}, others={**before.others, **claim.others}
        )
        write_json(file, joined._asdict())


def _difference(before: Claim, claim: Claim) -> str:
    """What a folder holds instead of what is claimed, or ""."""
    if before.scale != claim.scale:
        return f"scale {before.scale}, not {claim.scale}"
    if before.text != claim.text:
        return "another text"
    for known, claimed in ((before.lms, claim.lms), (before.others, claim.others)):
        for name, value in claimed.items():
            if known.get(name, value) != value:
                return f"another LM called {name}"
    return ""


def read_claim(folder: Path) -> Claim:
    """What the results of a folder are of."""
    fields = read_json(folder / CLAIM)
    return Claim(**{name: fields[name] for name in Claim._fields})


def load_records(
    folder: Path, kinds: Mapping[str, type[Condition[Any, Any]]]
) -> dict[str, Record[Any]]:
    """All records of a results folder, by the names of their conditions.

    Args:
        folder: The results folder.
        kinds: Classes of conditions, by their `kind`.

    Raises:
        KnnlmError: There are none, or one of them is damaged or of another format.
    """
    _refuse_format_1(folder)
    files = sorted((folder / RECORDS).glob("*.json"))
    if not files:
        raise KnnlmError(f"{folder} holds no results: run its experiment first")
    return {file.stem: read_record(file, kinds) for file in files}


def _refuse_format_1(folder: Path) -> None:
    """Records of format 1 are in another folder."""
    earlier = folder / _RECORDS_OF_FORMAT_1
    if earlier.is_dir() and not (folder / RECORDS).is_dir():
        raise _earlier_format(earlier, 1)
