"""Wrong types get a sentence: what a function was given is compared with its own annotations.

    @check_types
    def tune(text: Text, *, k: int | None = None) -> …

    tune("valid.txt", k="64")    UsageError: `k` is a str ('64'): give a whole number or None

Only what a user may pass is checked this way, at the edge of the library; inside, mypy does it.
"""

import contextlib
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

_NUMBERS: dict[Any, Any] = {int: numbers.Integral, float: numbers.Real}
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
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python says it better: it names the function
        for name, value in bound.arguments.items():
            bound.arguments[name] = check_type(name, value, hints().get(name, Any))
        return function(*bound.args, **bound.kwargs)

    return checked


def check_type(name: str, value: Any, hint: Any) -> Any:
    """A value as an annotation wants it: NumPy's numbers become Python's, an array a list.

    Raises:
        UsageError: It has another type.
    """
    try:
        return _as_hinted(value, hint)
    except TypeError:
        words = list(dict.fromkeys(_wanted(hint)))
        wanted = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        given = repr(value)
        shown = f" ({given})" if len(given) <= 40 and value is not None else ""
        kind = "None" if value is None else type(value).__name__
        article = (
            "" if value is None else "an " if kind[0] in "aeiou" or kind == "ndarray" else "a "
        )
        raise UsageError(f"`{name}` is {article}{kind}{shown}: give {wanted}") from None


def _as_hinted(value: Any, hint: Any) -> Any:
    """The value, or a TypeError if it does not fit."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for part in parts:
            with contextlib.suppress(TypeError):
                return _as_hinted(value, part)
        raise TypeError
    if origin is Sequence:
        items = value.tolist() if getattr(value, "ndim", 0) == 1 else value
        if not isinstance(items, Sequence) or isinstance(items, str | bytes):
            raise TypeError
        return [_as_hinted(item, parts[0]) for item in items]
    if hint in _NUMBERS:
        if not isinstance(value, _NUMBERS[hint]) or isinstance(value, bool):
            raise TypeError
        return hint(value)
    fits = True
    if origin is Literal:
        fits = any(isinstance(value, type(part)) for part in parts)  # the name itself: elsewhere
    elif hint is bool:
        fits = type(value).__name__ in ("bool", "bool_")
        value = bool(value) if fits else value
    elif origin is Callable:
        fits = callable(value)
    elif inspect.isclass(hint) and origin is None and hint is not Any:
        fits = isinstance(value, hint)
    if not fits:
        raise TypeError
    return value


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
