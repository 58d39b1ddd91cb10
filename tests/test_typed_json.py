"""Dataclasses ⇄ JSON: every type of field comes back as it was, and no other value is read."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import DamagedError
from knnlm.evaluation import DocumentSums
from knnlm.stored_fields import Count, Keys, PlainName, Share, check_fields
from knnlm.typed_json import FieldError, Unbounded, from_json, json_name, to_json


class Pair(NamedTuple):
    """A NamedTuple."""

    name: str
    step: int | None


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A dataclass inside another."""

    lam: float = json_name("lambda")


@dataclass(frozen=True, kw_only=True)
class Deeper(Inner):
    """One with the fields of another."""

    ppl: Unbounded


class OwnWords:
    """A class that writes itself."""

    def __init__(self, value: int) -> None:
        self.value = value

    def as_json(self) -> dict[str, int]:
        return {"its value": self.value}

    @staticmethod
    def from_json(fields: dict[str, int]) -> "OwnWords":
        return OwnWords(int(fields["its value"]))


@dataclass(frozen=True)
class Everything:
    """Every type of field."""

    kind: Literal["a", "b"]
    flag: bool
    count: int
    maybe: float | None
    floats: tuple[float, ...]
    two: tuple[str, int]
    pairs: tuple[Pair, ...]
    named: dict[str, tuple[int, ...]]
    inner: Inner | None
    deeper: Deeper
    raw: Any


finite = st.floats(allow_nan=False, allow_infinity=False)
everything = st.builds(
    Everything,
    kind=st.sampled_from(["a", "b"]),
    flag=st.booleans(),
    count=st.integers(),
    maybe=st.none() | finite,
    floats=st.lists(finite).map(tuple),
    two=st.tuples(st.text(), st.integers()),
    pairs=st.lists(st.builds(Pair, st.text(), st.none() | st.integers())).map(tuple),
    named=st.dictionaries(st.text(), st.lists(st.integers()).map(tuple)),
    inner=st.none() | st.builds(Inner, lam=finite),
    deeper=st.builds(Deeper, lam=finite, ppl=finite | st.just(math.inf)),
    raw=st.none() | st.lists(st.integers()),
)
EXAMPLE = Everything(
    kind="a",
    flag=True,
    count=1,
    maybe=None,
    floats=(0.5,),
    two=("x", 2),
    pairs=(Pair("main", None),),
    named={"n": (1,)},
    inner=None,
    deeper=Deeper(lam=0.25, ppl=math.inf),
    raw=[1],
)


@given(everything)
def test_what_is_written_is_read_again(value: Everything) -> None:
    assert from_json(Everything, json.loads(json.dumps(to_json(value), allow_nan=False))) == value


def test_json_is_as_one_would_write_it() -> None:
    assert to_json(EXAMPLE) == {
        "kind": "a",
        "flag": True,
        "count": 1,
        "maybe": None,
        "floats": [0.5],
        "two": ["x", 2],
        "pairs": [{"name": "main", "step": None}],
        "named": {"n": [1]},
        "inner": None,
        "deeper": {"lambda": 0.25, "ppl": None},
        "raw": [1],
    }


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("kind", "c", "kind is none of a, b"),
        ("flag", 1, "flag is not true or false"),
        ("count", True, "count is not a whole number"),
        ("count", 1.0, "count is not a whole number"),
        ("maybe", "1", "maybe is not a number"),
        ("floats", 0.5, "floats is not a list"),
        ("floats", [0.5, None], "floats[1] is not a number"),
        ("two", ["x"], "two has not 2 items"),
        ("two", [1, 2], "two[0] is not a string"),
        ("pairs", [["main", None]], "pairs[0] is not an object"),
        ("pairs", [{"name": "main"}], "pairs[0].step is missing"),
        ("named", [], "named is not an object"),
        ("named", {"n": [1.5]}, "named.n[0] is not a whole number"),
        ("inner", {"lam": 1.0}, "inner.lam is not known"),
        ("deeper", {"lambda": 1.0, "ppl": "∞"}, "deeper.ppl is not a number"),
        ("deeper", {"lambda": None, "ppl": 1.0}, "deeper.lambda is not a number"),
    ],
)
def test_what_is_not_of_its_fields_type_is_refused(field: str, value: Any, problem: str) -> None:
    fields = {**to_json(EXAMPLE), field: value}
    with pytest.raises(FieldError) as error:
        from_json(Everything, fields)
    assert str(error.value) == problem


def test_a_field_too_many_and_one_too_few_are_refused() -> None:
    fields = to_json(EXAMPLE)
    with pytest.raises(FieldError, match="more is not known"):
        from_json(Everything, {**fields, "more": 1})
    with pytest.raises(FieldError, match="flag is missing"):
        from_json(Everything, {name: value for name, value in fields.items() if name != "flag"})


def test_a_whole_number_stays_one_where_a_float_is_wanted() -> None:
    assert repr(from_json(Inner, {"lambda": 1}).lam) == "1"


@pytest.mark.parametrize(
    "value", [Inner(lam=math.inf), Inner(lam=math.nan), Deeper(lam=0.5, ppl=math.nan)]
)
def test_numbers_that_json_does_not_have_are_not_written(value: Inner) -> None:
    with pytest.raises(FieldError, match="is not finite"):
        to_json(value)


def test_numbers_of_numpy_become_those_of_python() -> None:
    numbers: dict[str, Any] = {
        "kind": np.str_("a"),
        "flag": np.bool_(True),
        "count": np.int64(1),
        "maybe": np.float64(0.25),
        "floats": (np.float32(0.5), np.float64(0.1)),
        "deeper": Deeper(lam=0.25, ppl=np.float32(math.inf)),  # type: ignore[arg-type]
        "raw": [np.int32(1)],
    }
    value = replace(EXAMPLE, **numbers)
    plain = replace(EXAMPLE, maybe=0.25, floats=(0.5, 0.1))
    assert json.dumps(to_json(value)) == json.dumps(to_json(plain))


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("count", np.float64(1.0), "count is not a whole number"),
        ("maybe", np.float32(math.nan), "maybe is not finite"),
        ("maybe", np.zeros(1), "maybe is not a number"),
        ("floats", np.zeros(2), "floats is not a tuple"),
        ("named", {4: (1,)}, "named has a name that is not a string"),
        ("raw", object(), "raw is not JSON"),
        ("raw", [math.nan], "raw[0] is not finite"),
    ],
)
def test_what_json_does_not_have_is_not_written(field: str, value: Any, problem: str) -> None:
    changed = replace(EXAMPLE, **{field: value})
    with pytest.raises(FieldError) as error:
        to_json(changed)
    assert str(error.value) == problem


def test_a_class_may_write_itself() -> None:
    assert to_json(OwnWords(3)) == {"its value": 3}
    assert from_json(OwnWords, {"its value": 3}).value == 3


@pytest.mark.parametrize("fields", [{}, [], None, {"its value": "much"}])
def test_a_class_that_cannot_read_itself_names_the_field(fields: Any) -> None:
    with pytest.raises(FieldError, match=r"^own cannot be read \("):
        from_json(OwnWords, fields, "own")


def test_values_that_a_class_refuses_name_the_field() -> None:
    with pytest.raises(FieldError, match=r"^sums is impossible \(there are sums of 1 documents"):
        from_json(DocumentSums, {"log_likelihood": [-1.0], "tokens": [1, 2]}, "sums")


def test_types_that_json_cannot_tell_apart_are_an_error() -> None:
    @dataclass(frozen=True)
    class Either:
        value: int | str

    with pytest.raises(TypeError, match="which of its types"):
        to_json(Either(1))
    with pytest.raises(TypeError, match="is no dataclass"):
        to_json(object())


class Described(TypedDict):
    """JSON that stays a dict."""

    share: Share
    names: list[PlainName]
    sizes: dict[PlainName, Count]
    more: NotRequired[Keys]


DESCRIBED = {"share": 1, "names": ["a.b"], "sizes": {"x": 0}, "later": {"any": [None]}}


def test_a_described_dict_stays_as_it_is() -> None:
    assert from_json(Described, DESCRIBED) == DESCRIBED
    assert from_json(Described, {**DESCRIBED, "more": ["ffn"]}) == {**DESCRIBED, "more": ["ffn"]}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"share": 1.5}, "share is not between 0 and 1"),
        ({"share": 10**400}, "share is not finite"),
        ({"share": True}, "share is not a number"),
        ({"names": ("a",)}, "names is not a list"),
        ({"names": ["a", "../b"]}, r"names\[1\] is not a plain file name"),
        ({"names": [".."]}, r"names\[0\] is not a plain file name"),
        ({"names": ["a\n"]}, r"names\[0\] is not a plain file name"),
        ({"sizes": {"a/b": 1}}, "sizes.a/b is not a plain file name"),
        ({"sizes": {"a": -1}}, "sizes.a is not between 0 and"),
        ({"sizes": {"\x1b[2J\n": 1}}, r"sizes.␛\[2J↵ is not a plain file name"),
        ({"sizes": {"x" * 999: -1}}, "sizes.x{194}… is not a plain"),
        ({"more": []}, "more is empty"),
        ({"more": ["att", "att"]}, "more names something twice"),
        ({"more": ["both"]}, r"more\[0\] is none of att, ffn"),
    ],
)
def test_what_is_not_as_described_is_named(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(FieldError, match=f"^{problem}"):
        from_json(Described, {**DESCRIBED, **fields})
    with pytest.raises(DamagedError, match=rf"^file.json is damaged \({problem}.*\): delete it$"):
        check_fields(Described, {**DESCRIBED, **fields}, Path("file.json"), "delete it")


def test_a_described_field_that_is_missing_is_named() -> None:
    with pytest.raises(FieldError, match="^names is missing"):
        from_json(Described, {"share": 0.5, "sizes": {}})


def test_nothing_but_the_same_type_is_a_literal() -> None:
    """1 == True == 1.0 in Python."""
    kind: Any = Literal[1]
    assert from_json(kind, 1) == 1
    for value in (True, 1.0):
        with pytest.raises(FieldError):
            from_json(kind, value)
