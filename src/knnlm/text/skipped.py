"""Which files of a folder are read, and how those that are not are counted by reason."""

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from knnlm.errors import UsageError
from knnlm.progress import counted, log
from knnlm.text import formats

_NOUNS = ("dangling link", "linked folder")
"""Reasons that have a plural."""


def files_of_folder(folder: Path) -> list[Path]:
    """The text files of a folder, in name order, but no hidden ones; what is skipped is said in
    one line.

    Raises:
        UsageError: There are none.
    """
    files: list[Path] = []
    skipped: Counter[str] = Counter()
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or not (path.is_file() or path.is_symlink()):
            continue
        reason = _why_skipped(path)
        if reason is None:
            files.append(path)
        else:
            log.debug(f"skipped: {path} ({reason})")
            skipped[reason] += 1
    skipped = Counter(dict(skipped.most_common()))
    if not files:
        raise UsageError(
            f"{folder} holds no text{f' (skipped: {_listed(skipped)})' if skipped else ''}: give "
            "another folder, or name files"
        )
    if skipped:
        log.info(f"{folder}: {counted(len(files), 'file')}, and {_listed(skipped)} skipped")
    return files


def without_text(errors: Collection[formats.NoText]) -> tuple[str, str]:
    """Files that could not be read, counted by reason, and what to do about the first reason.

    What an installation solves comes first, then what is most frequent.

    Example:
        >>> without_text([formats.NoConverter("…", ".pdf")])
        ('1 .pdf whose converter is missing', 'run pip install pypdf inscriptis')
    """
    reasons = Counter(error.reason for error in errors)
    remedies = {error.reason: error.remedy for error in errors}
    solved = {error.reason for error in errors if isinstance(error, formats.NoConverter)}
    ordered = sorted(reasons, key=lambda reason: (reason not in solved, -reasons[reason]))
    return _listed({reason: reasons[reason] for reason in ordered}), remedies[ordered[0]]


def _why_skipped(path: Path) -> str | None:
    """Why a folder's file or link is not read; None if it is."""
    if not path.is_file():
        return "linked folder" if path.is_dir() else "dangling link"
    if not formats.is_read(path):
        return path.suffix.lower() or "without a suffix"
    try:
        if path.stat().st_size == 0:
            return "empty"
        if formats.suffix_of(path) in formats.CONVERTED:
            return None
        return None if _is_text(path) else "not UTF-8"
    except OSError:
        return "not readable"


def _is_text(path: Path) -> bool:
    """Whether all of a file is UTF-8 without NUL bytes."""
    try:
        with path.open(encoding="utf-8") as file:
            while block := file.read(1 << 20):
                if "\0" in block:
                    return False
    except UnicodeDecodeError:
        return False
    return True


def _listed(reasons: Mapping[str, int]) -> str:
    """2 .png, 1 empty"""
    return ", ".join(
        counted(count, reason) if reason in _NOUNS else f"{count:,} {reason}"
        for reason, count in reasons.items()
    )
