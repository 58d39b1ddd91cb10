"""Errors that the user can fix.

Every message is one sentence with the cause and the next step; the command line prints it without a
traceback. Programming errors stay ordinary exceptions.
"""

import difflib
from collections.abc import Iterable

from knnlm.formats import printable


class KnnlmError(Exception):
    """The request could not be carried out; the message says why and what to do next.

    What it quotes (a file's name, a field) may come from anybody, so it can steer no terminal.
    """

    exit_code = 1

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


class UsageError(KnnlmError):
    """The request itself is wrong: an unknown name, a number out of range, a contradiction."""

    exit_code = 2


class DamagedError(KnnlmError):
    """A file is not what was written: truncated, altered or missing."""


def unknown(noun: str, name: str, choices: Iterable[str], where_listed: str = "") -> UsageError:
    """Make the error for a name that is not one of the choices; the caller raises it.

    Args:
        noun: What is named, as in "unknown metric".
        name: The name that was given.
        choices: The names that exist; one that resembles `name` is suggested.
        where_listed: Said instead of listing all choices, e.g. "see 'knnlm reproduce --list'".

    Example:
        >>> print(unknown("key", "atn", ["att", "ffn"]))
        unknown key 'atn': did you mean 'att'? choose one of att, ffn
    """
    names = sorted(choices)
    similar = difflib.get_close_matches(name, names, n=1)
    suggestion = f"did you mean '{similar[0]}'? " if similar else ""
    advice = where_listed or "choose one of " + ", ".join(names)
    return UsageError(f"unknown {noun} '{name}': {suggestion}{advice}")


def first_line(error: Exception) -> str:
    """What another library's error says, short enough to quote inside a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
