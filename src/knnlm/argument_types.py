"""Wrong types get a sentence: what a function was given is compared with its own annotations.

    @check_types
    def tune(text: Text, *, k: int | None = None) -> …

    tune("valid.txt", k="64")    UsageError: `k` is a str ('64'): give a whole number or None

Only what a user may pass is checked this way, at the edge of the library; inside, mypy does it.
"""

import functools
import inspect
import numbers
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from knnlm.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    Path: "a path",
    type(None): "None",
}


def check_types(function: Callable[P, R]) -> Callable[P, R]:
    """A function that raises a UsageError where an argument does not have its annotated type.

    Annotations other than classes, literals, and unions and sequences of them are not checked.
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        return get_type_hints(function)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)  # an unknown name is Python's own TypeError
        for name, value in bound.arguments.items():
            check_type(name, value, hints().get(name, Any))
        return function(*args, **kwargs)

    return checked


def check_type(name: str, value: Any, hint: Any) -> None:
    """Raise a UsageError unless `value` has the type that an annotation says."""
    if not _fits(value, hint):
        words = list(dict.fromkeys(_wanted(hint)))
        wanted = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        given = repr(value)
        shown = f" ({given})" if len(given) <= 40 else ""
        kind = type(value).__name__
        article = "an" if kind[0] in "aeiou" else "a"
        raise UsageError(f"`{name}` is {article} {kind}{shown}: give {wanted}")


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return any(isinstance(value, type(part)) for part in parts)  # the name itself: elsewhere
    if hint is int or hint is float:
        number = numbers.Integral if hint is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is Sequence:
        sequence = isinstance(value, Sequence) and not isinstance(value, str)
        return sequence and all(_fits(item, parts[0]) for item in value)
    if origin is Callable:
        return callable(value)
    if inspect.isclass(hint) and origin is None and hint is not Any:
        return isinstance(value, hint)
    return True


def _wanted(hint: Any) -> Iterator[str]:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for part in parts:
            if not (part is str and Path in parts):  # a path may be given as text
                yield from _wanted(part)
    elif origin is Literal:
        yield from (repr(part) for part in parts)
    elif origin is Sequence:
        yield "a list of " + " or ".join(_plural(word) for word in _wanted(parts[0]))
    elif origin is Callable:
        yield "a function"
    else:
        yield _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _plural(word: str) -> str:
    return word.removeprefix("a ") + "s"
