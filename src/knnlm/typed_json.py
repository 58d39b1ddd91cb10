"""Frozen dataclasses ⇄ JSON, strictly: what was written is what is read, or an error names the
field.

Fields may be str, int, float, bool, Literal, `X | None`, tuple, dict[str, X], Any (JSON as it is),
NamedTuples and dataclasses of these, and classes that write themselves (`as_json`, `from_json`).
NamedTuples and dataclasses become objects, tuples become lists. A field whose name is a keyword of
Python has another one in JSON: `lam: float = json_name("lambda")`. JSON has no infinity: a number
that may be infinite is an `Unbounded`, which is null then. Numbers of NumPy become those of
Python. `Annotated[X, check]` is an X in which `check.problem(x)` finds none (stored_fields.py).

A `TypedDict` describes JSON that stays a dict. It is only read, and may hold fields that are not
described: a later knnlm may write more. A list[X] stays a list."""

import dataclasses
import math
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from knnlm.formats import visible

T = TypeVar("T")
_SHOWN = 200  # characters of a field's name in an error: the name may come from the JSON
_INFINITY_IS_NULL = "infinity is null"
Unbounded = Annotated[float, _INFINITY_IS_NULL]
"""A number that may be infinite."""
_NAME = "name in JSON"
_LARGEST = sys.float_info.max
_Read = Callable[[Any, str], Any]
_Write = Callable[[Any, str], Any]


class FieldError(ValueError):
    """A value does not have the type of its field.

    Args:
        field: Where it is, e.g. "measurement.base.words".
        problem: What is wrong with it, e.g. "is missing".
    """

    def __init__(self, field: str, problem: str) -> None:
        shown = visible(field[:_SHOWN]) + ("…" if len(field) > _SHOWN else "")
        super().__init__(f"{shown or 'the whole'} {problem}")


def json_name(name: str, default: Any = dataclasses.MISSING) -> Any:
    """A field of a dataclass that is called differently in JSON."""
    return dataclasses.field(default=default, metadata={_NAME: name})


def to_json(value: Any, field: str = "") -> Any:
    """A dataclass, or anything that a field of one may be, as JSON.

    Args:
        value: The dataclass.
        field: Where its JSON will be, for errors.

    Raises:
        FieldError: A value is not of its field's type.
    """
    kind: Any = type(value)
    return _writer(kind)(value, field)


def from_json(kind: type[T], value: Any, field: str = "") -> T:
    """What `to_json` was given.

    Args:
        kind: Its type.
        value: The JSON.
        field: Where the JSON is, for errors.

    Raises:
        FieldError: A field is missing, unknown, or of another type.
    """
    wanted: Any = kind
    result: T = _reader(wanted)(value, field)
    return result


def check_json_type(kind: Any) -> None:
    """Raise a TypeError unless values of this type can be written and read."""
    _writer(kind), _reader(kind)


@cache
def _reader(kind: Any) -> _Read:
    """Reads JSON of one type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return lambda value, _: value
    if origin is Annotated:
        return _read_annotated(*arguments)
    if origin in (Union, types.UnionType):
        return _optional(_reader(_of_optional(kind, arguments)))
    if origin is Literal:
        return _read_literal(arguments)
    if origin is tuple:
        return _read_tuple(arguments)
    if origin is list:
        return _read_list(_reader(arguments[0]))
    if origin in (dict, Mapping):
        return _read_dict(_reader(arguments[1]), _reader(arguments[0]))
    if kind in _PLAIN:
        return _plain(kind)
    if is_typeddict(kind):
        return _read_described(kind)
    if hasattr(kind, "from_json"):
        return _read_own_words(kind)
    return _read_object(kind)


@cache
def _writer(kind: Any) -> _Write:
    """Writes values of one type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return _write_any
    if origin is Annotated:
        unbounded = _INFINITY_IS_NULL in arguments
        return _write_unbounded if unbounded else _written(_read_annotated(*arguments))
    if origin in (Union, types.UnionType):
        return _optional(_writer(_of_optional(kind, arguments)))
    if origin is Literal:
        return _written(_read_literal(arguments))
    if origin is tuple:
        return _write_tuple(arguments)
    if origin in (dict, Mapping):
        return _read_dict(_writer(arguments[1]))
    if kind in _PLAIN:
        return _written(_plain(kind))
    if hasattr(kind, "as_json"):
        return lambda value, field: _write_any(value.as_json(), field)
    return _write_object(kind)


_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
}


def _plain(kind: Any) -> _Read:
    """Strings, numbers and booleans are the same in both; a whole number may stand for a float."""
    accepted, name = _PLAIN[kind]

    def check(value: Any, field: str) -> Any:
        if type(value) not in accepted:
            raise FieldError(field, f"is not {name}")
        # a whole number has no limit, a float has
        if float in accepted and not -_LARGEST <= value <= _LARGEST:
            raise FieldError(field, "is not finite")
        return value

    return check


def _python(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def _written(check: _Read) -> _Write:
    return lambda value, field: check(_python(value), field)


def _write_any(value: Any, field: str) -> Any:
    """JSON as it is."""
    if isinstance(value, Mapping):
        return _read_dict(_write_any)(value, field)
    if isinstance(value, list | tuple):
        return [_write_any(item, f"{field}[{i}]") for i, item in enumerate(value)]
    plain = _python(value)
    if plain is None or type(plain) in (str, bool, int):
        return plain
    if type(plain) is not float:
        raise FieldError(field, "is not JSON")
    return _plain(float)(plain, field)


def _read_own_words(kind: Any) -> _Read:
    """Reads a class that reads itself; what it is given may be anything."""

    def read(value: Any, field: str) -> Any:
        try:
            return kind.from_json(value)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise FieldError(field, f"cannot be read ({type(error).__name__}: {error})") from error

    return read


def _read_annotated(kind: Any, *checks: Any) -> _Read:
    """A value that checks accept, or a number that may be infinite."""
    if _INFINITY_IS_NULL in checks:
        return _read_unbounded
    read = _reader(kind)

    def checked(value: Any, field: str) -> Any:
        result = read(value, field)
        for check in checks:
            if (problem := check.problem(result)) is not None:
                raise FieldError(field, problem)
        return result

    return checked


def _read_unbounded(value: Any, field: str) -> Any:
    return math.inf if value is None else _plain(float)(value, field)


def _write_unbounded(value: Any, field: str) -> Any:
    number = _python(value)
    return None if type(number) is float and number == math.inf else _plain(float)(number, field)


def _of_optional(kind: Any, arguments: tuple[Any, ...]) -> Any:
    """X of `X | None`."""
    others = [argument for argument in arguments if argument is not types.NoneType]
    if len(others) != 1:
        raise TypeError(f"JSON of {kind} would not say which of its types is meant")
    return others[0]


def _optional(convert: _Read) -> _Read:
    return lambda value, field: None if value is None else convert(value, field)


def _read_literal(choices: tuple[Any, ...]) -> _Read:
    def check(value: Any, field: str) -> Any:
        # type and value: 1.0 and True are equal to 1, and not the same
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise FieldError(field, f"is none of {', '.join(map(str, choices))}")
        return value

    return check


def _read_tuple(arguments: tuple[Any, ...]) -> _Read:
    convert = _convert_items(arguments, _reader)

    def read(value: Any, field: str) -> Any:
        if not isinstance(value, list):
            raise FieldError(field, "is not a list")
        return tuple(convert(value, field))

    return read


def _write_tuple(arguments: tuple[Any, ...]) -> _Write:
    convert = _convert_items(arguments, _writer)

    def write(value: Any, field: str) -> Any:
        if not isinstance(value, tuple):
            raise FieldError(field, "is not a tuple")
        return convert(value, field)

    return write


def _convert_items(
    arguments: tuple[Any, ...], convert: Callable[[Any], _Read]
) -> Callable[[Any, str], list[Any]]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = convert(arguments[0])
        return lambda values, field: [item(v, f"{field}[{i}]") for i, v in enumerate(values)]
    items = [convert(argument) for argument in arguments]

    def each(values: Any, field: str) -> list[Any]:
        if len(values) != len(items):
            raise FieldError(field, f"has not {len(items)} items")
        pairs = zip(items, values, strict=True)
        return [one(value, f"{field}[{i}]") for i, (one, value) in enumerate(pairs)]

    return each


def _read_list(convert: _Read) -> _Read:
    def read(value: Any, field: str) -> Any:
        if not isinstance(value, list):
            raise FieldError(field, "is not a list")
        return [convert(item, f"{field}[{i}]") for i, item in enumerate(value)]

    return read


def _read_dict(convert: _Read, of_name: _Read | None = None) -> _Read:
    """Of objects; `of_name` reads the names in them."""

    def read(value: Any, field: str) -> Any:
        if not isinstance(value, Mapping):
            raise FieldError(field, "is not an object")
        if any(type(name) is not str for name in value):
            raise FieldError(field, "has a name that is not a string")
        if of_name is not None:
            for name in value:
                of_name(name, _inside(field, name))
        return {name: convert(item, _inside(field, name)) for name, item in value.items()}

    return read


def _read_described(kind: Any) -> _Read:
    """Of a TypedDict: its fields are read, others stay as they are."""
    hints = get_type_hints(kind, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    optional |= set(kind.__optional_keys__)
    fields = {
        name: _reader(get_args(hint)[0] if get_origin(hint) is NotRequired else hint)
        for name, hint in hints.items()
    }

    def read(value: Any, field: str) -> Any:
        if not isinstance(value, Mapping):
            raise FieldError(field, "is not an object")
        result = dict(value)
        for name, convert in fields.items():
            if name in value:
                result[name] = convert(value[name], _inside(field, name))
            elif name not in optional:
                raise FieldError(_inside(field, name), "is missing")
        return result

    return read


def _fields(kind: Any, convert: Callable[[Any], _Read]) -> list[tuple[str, str, _Read]]:
    """(name, name in JSON, conversion) of each field of a dataclass or NamedTuple."""
    if dataclasses.is_dataclass(kind):
        names = {f.name: f.metadata.get(_NAME, f.name) for f in dataclasses.fields(kind)}
    elif hasattr(kind, "_fields"):
        names = {name: name for name in kind._fields}
    else:
        raise TypeError(f"{kind} is no dataclass: JSON of it is not known")
    hints = get_type_hints(kind, include_extras=True)
    return [(name, in_json, convert(hints[name])) for name, in_json in names.items()]


def _read_object(kind: Any) -> _Read:
    fields = _fields(kind, _reader)
    known = {in_json for _, in_json, _ in fields}

    def read(value: Any, field: str) -> Any:
        if not isinstance(value, Mapping):
            raise FieldError(field, "is not an object")
        for in_json in value:
            if in_json not in known:
                raise FieldError(_inside(field, in_json), "is not known")
        for _, in_json, _ in fields:
            if in_json not in value:
                raise FieldError(_inside(field, in_json), "is missing")
        values = {n: one(value[in_json], _inside(field, in_json)) for n, in_json, one in fields}
        try:
            return kind(**values)
        except ValueError as error:  # of its __post_init__
            raise FieldError(field, f"is impossible ({error})") from error

    return read


def _write_object(kind: Any) -> _Write:
    fields = _fields(kind, _writer)

    def write(value: Any, field: str) -> Any:
        if type(value) is not kind:
            raise FieldError(field, f"is no {kind.__name__}")
        return {
            in_json: one(getattr(value, name), _inside(field, in_json))
            for name, in_json, one in fields
        }

    return write


def _inside(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name
