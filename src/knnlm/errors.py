"""What goes wrong in a way the user can mend.

Every message is one sentence with the cause and the next step; the command line prints it as it is,
without a traceback. Programming errors stay ordinary exceptions. This module knows nothing of who
raises."""

import difflib
from collections.abc import Iterable


class KnnlmError(Exception):
    """It could not be done; the message says why and what to do next."""

    exit_code = 1


class UsageError(KnnlmError):
    """The request itself is wrong: an unknown name, a number out of range, options that exclude
    each other."""

    exit_code = 2


class DamagedError(KnnlmError):
    """Something on disk is not what was written: truncated, altered, or missing."""


def unknown(what: str, given: str, known: Iterable[str], listed: str = "") -> UsageError:
    """An error for a name that is not one of `known`, with the nearest one suggested, and all of
    them or where they are `listed`."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return UsageError(
        f"unknown {what} '{given}': {hint}{listed or 'choose one of ' + ', '.join(names)}"
    )


def first_line(error: Exception) -> str:
    """What another library's error says, short enough to quote inside a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
