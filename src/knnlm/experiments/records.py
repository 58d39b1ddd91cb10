"""A results folder: which experiment it belongs to, and one JSON record for each condition.

    OUT/scale.json           the scale, texts and LMs that these results are of; others are refused
    OUT/records/<name>.json  what was measured for one condition, and how it was made
    OUT/work/                the workspace (large; may be deleted when all records are there)

Files are replaced in one step and carry a checksum (files.py). A record has the fields of `Record`,
no more and no fewer; one of another format, name or scale is refused. Needs no torch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple

from knnlm.disk import remove_left_over
from knnlm.errors import DamagedError, KnnlmError
from knnlm.experiments.base_lms import BaseLM, ExistingLM
from knnlm.experiments.condition import Condition, M, W
from knnlm.experiments.provenance import Provenance
from knnlm.experiments.texts import Texts
from knnlm.files import fingerprint, read_json, write_json
from knnlm.locks import HOLDER, LOCK, write_lock
from knnlm.typed_json import FieldError, from_json, to_json

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


def read_record(
    file: Path, kinds: Mapping[str, type[Condition[Any, Any]]], scale: str | None = None
) -> Record[Any]:
    """Read what `write_record` wrote.

    Args:
        file: The record.
        kinds: Classes of conditions, by their `kind`.
        scale: The scale that it must be of, that of the folder's claim; None is any.

    Raises:
        DamagedError: The file is not what was written, is of another condition or scale than its
            place says, or has fields that its kind of condition does not have.
        KnnlmError: It has another format.
    """
    fields = read_json(file, newest_format=FORMAT)
    if (number := fields.pop("format", None)) != FORMAT:
        raise _earlier_format(file, number)
    try:
        record: Record[Any] = from_json(Record, fields)
        if (kind := kinds.get(record.kind)) is None:
            raise FieldError("kind", f"{record.kind} is not known")
        if record.condition != file.stem:
            raise FieldError("condition", f"is {record.condition}, not what the file is called")
        if scale is not None and record.scale != scale:
            raise FieldError("scale", f"is {record.scale}, not {scale} as in {CLAIM}")
        if (name := from_json(kind, record.settings, "settings").name) != record.condition:
            raise FieldError("settings", f"are those of {name}")
        measurement = from_json(kind.measurement_type, record.measurement, "measurement")
    except FieldError as error:
        raise DamagedError(
            f"{file} cannot be read as a record ({error}): restore it, or delete it and measure "
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
    text: tuple[dict[str, Any], ...]
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
        (*described, {"queries": queries}),
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
        self._scale: str | None = None

    @contextmanager
    def claimed(self, claim: Claim) -> Iterator[None]:
        """Hold the folder for one experiment, alone.

        Records of different scales, texts or LMs do not belong in one folder; further LMs may join.
        A folder that holds no record yet may be claimed by another experiment.

        Raises:
            KnnlmError: The folder holds other things or other results, or another process writes
                to it. Nothing was changed then.
        """
        self.check(claim)  # before the lock, whose file would stay in a folder of somebody else
        with write_lock(self.path):
            joined = self._joined(claim)
            (self.path / RECORDS).mkdir(exist_ok=True)
            write_json(self.path / CLAIM, joined._asdict())
            self._scale = claim.scale
            yield

    def check(self, claim: Claim) -> None:
        """Refuse a claim as `claimed` would, without making it.

        Raises:
            KnnlmError: The folder holds other things or other results.
        """
        self._joined(claim)

    def file(self, name: str) -> Path:
        """The record of the condition of that name."""
        return self.path / RECORDS / f"{name}.json"

    def read(self, condition: Condition[W, M]) -> Record[M] | None:
        """The record of a condition, if it was measured.

        Raises:
            KnnlmError: It is damaged, of another format, or of another scale than was claimed.
        """
        file = self.file(condition.name)
        if not file.is_file():
            return None
        return read_record(file, {condition.kind: type(condition)}, self._scale)

    def write(self, record: Record[Any]) -> None:
        """Keep the record of a condition."""
        write_record(self.file(record.condition), record)

    def _joined(self, claim: Claim) -> Claim:
        """What the folder will be of, once it is claimed."""
        if not (self.path / CLAIM).is_file():
            self._refuse_strangers()
            return claim
        _refuse_format_1(self.path)
        before = read_claim(self.path)
        if difference := _difference(before, claim):
            if not _record_files(self.path):
                return claim
            raise KnnlmError(
                f"{self.path} holds results of {difference}: choose another `out`; nothing was "
                "changed"
            )
        return claim._replace(
            lms={**before.lms, **claim.lms}, others={**before.others, **claim.others}
        )

    def _refuse_strangers(self) -> None:
        """Leave alone a folder that no experiment has claimed and that is not empty."""
        if not self.path.is_dir():
            return
        if _record_files(self.path):
            raise _no_claim(self.path)
        remove_left_over(self.path / CLAIM)
        known = (*self.own_names, RECORDS, LOCK, HOLDER)
        if strangers := sorted(p.name for p in self.path.iterdir() if p.name not in known):
            raise KnnlmError(
                f"{self.path} is not empty ({strangers[0]} …): choose another `out`; nothing was "
                "changed"
            )


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
    """What the results of a folder are of.

    Raises:
        KnnlmError: The folder does not say.
        DamagedError: What it says is not what was written.
    """
    file = folder / CLAIM
    if not file.is_file():
        raise _no_claim(folder)
    try:
        return from_json(Claim, read_json(file))
    except FieldError as error:
        raise DamagedError(
            f"{file} does not say what results are of ({error}): restore it, or choose another "
            "`out`"
        ) from error


def _no_claim(folder: Path) -> KnnlmError:
    return KnnlmError(
        f"{folder} has no {CLAIM}, which says what its records are of: restore it, or choose "
        "another `out`"
    )


def load_records(
    folder: Path, kinds: Mapping[str, type[Condition[Any, Any]]]
) -> dict[str, Record[Any]]:
    """All records of a results folder, by the names of their conditions.

    Args:
        folder: The results folder.
        kinds: Classes of conditions, by their `kind`.

    Raises:
        KnnlmError: There are none, or one of them is damaged, of another format, or of another
            condition or scale than its place says.
    """
    _refuse_format_1(folder)
    if not (files := _record_files(folder)):
        raise KnnlmError(f"{folder} holds no results: run its experiment first")
    scale = read_claim(folder).scale
    return {file.stem: read_record(file, kinds, scale) for file in files}


def _record_files(folder: Path) -> list[Path]:
    return sorted((folder / RECORDS).glob("*.json"))


def _refuse_format_1(folder: Path) -> None:
    """Records of format 1 are in another folder."""
    earlier = folder / _RECORDS_OF_FORMAT_1
    if earlier.is_dir() and not (folder / RECORDS).is_dir():
        raise _earlier_format(earlier, 1)
