"""Names made of settings: the ones that everything has, then what is unusual."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any


def unusual(value: Any, left_out: Iterable[str] = ()) -> list[str]:
    """The fields of a dataclass that differ from their defaults, as `field-value`.

    Args:
        value: The dataclass.
        left_out: Fields that are named otherwise.
    """
    named = [field for field in fields(value) if field.name not in set(left_out)]
    return [
        f"{field.name}-{_plain(getattr(value, field.name))}"
        for field in named
        if getattr(value, field.name) != field.default
    ]


def _plain(value: object) -> str:
    """What a file name may hold."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isalnum() or c == "." else "-" for c in text)
