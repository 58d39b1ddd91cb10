"""How much of an evaluation text is in a datastore, as it is kept in its cache.

DATASTORE/cache/overlap/<fingerprint>.json    what was found for one text
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from knnlm.errors import DamagedError
from knnlm.files import read_json, write_json
from knnlm.stored_fields import Count, Share, check_fields

CACHE = "cache/overlap"
FORMAT = 3


@dataclass(frozen=True)
class TextOverlap:
    """How much of a text is in a datastore (evaluation/overlap.py), with names."""

    share: Share
    documents: list[str]
    documents_share: Share
    total: Count
    large: bool
    sharing: list[str]
    """The documents of the text that share most with the datastore."""


def read_overlap(file: Path) -> TextOverlap | None:
    """What was found before; None if it was found by other rules.

    Raises:
        DamagedError: The file is not what was written, or a field cannot be.
    """
    fields = read_json(file, newest_format=FORMAT)
    number = fields.pop("format", None)
    if type(number) is not int:
        raise DamagedError(f"{file} is damaged (it has no format): delete it")
    if number != FORMAT:
        return None
    return check_fields(TextOverlap, fields, file, "delete it")


def write_overlap(file: Path, overlap: TextOverlap) -> None:
    """Keep what was found."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {"format": FORMAT, **asdict(overlap)})
