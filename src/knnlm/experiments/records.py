"""A results folder: which experiment it belongs to, and one JSON record for each condition.

    OUT/scale.json       the scale, texts and LMs that these results are of; others are refused
    OUT/rows/<name>.json what came out for one condition, and how it was made
    OUT/work/            the workspace (large; may be deleted when all records are there)

Files are replaced in one step and carry a checksum (files.py)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from knnlm.errors import KnnlmError
from knnlm.experiments.lms import BaseLM, ExistingLM
from knnlm.experiments.texts import Texts
from knnlm.files import fingerprint, read_json, write_json, write_lock

FORMAT = 1
CLAIM, RECORDS, WORK = "scale.json", "rows", "work"
# "row" and "rows" are the names, in folders and files that exist, of conditions and queries


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
        [*described, {"rows": queries}],
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

    def read(self, name: str) -> dict[str, Any] | None:
        """The record of the condition of that name, if it was measured."""
        file = self.file(name)
        return read_json(file, newest_format=FORMAT) if file.is_file() else None

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Keep the record of the condition of that name."""
        write_json(self.file(name), {"format": FORMAT, "row": name, **record})

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


def load_records(folder: Path) -> dict[str, dict[str, Any]]:
    """All records of a results folder, by the names of their conditions.

    Raises:
        KnnlmError: There are none.
    """
    files = sorted((folder / RECORDS).glob("*.json"))
    if not files:
        raise KnnlmError(f"{folder} holds no results: run its experiment first")
    return {file.stem: read_json(file, newest_format=FORMAT) for file in files}
