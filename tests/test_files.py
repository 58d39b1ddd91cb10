"""What is in files: canonical JSON, fingerprints, JSON that knows when it is damaged."""

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import (
    canonical,
    fingerprint,
    finite,
    read_json,
    write_json,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_equal_values_give_equal_bytes_in_any_order(value: dict[str, Any]) -> None:
    reordered = dict(reversed(value.items()))
    assert canonical(value) == canonical(reordered)
    assert fingerprint(value) == fingerprint(reordered)
    assert json.loads(canonical(value)) == value


def test_different_values_have_different_fingerprints() -> None:
    values: list[Any] = [
        {},
        [],
        {"a": 1},
        {"a": "1"},
        {"a": 1.5},
        {"a": [1]},
        {"b": 1},
        None,
        0,
        "",
        False,
    ]
    assert len({fingerprint(v) for v in values}) == len(values)
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint({"a": float("nan")})


def test_infinities_and_nan_become_null_and_the_rest_stays() -> None:
    fields = {
        "a": math.inf,
        "b": [1.5, math.nan, (2, -math.inf)],
        "c": "inf",
        "d": 3,
        "e": None,
        "f": True,
    }
    assert finite(fields) == {
        "a": None,
        "b": [1.5, None, [2, None]],
        "c": "inf",
        "d": 3,
        "e": None,
        "f": True,
    }


@given(
    st.dictionaries(
        st.text().filter(lambda k: k not in ("checksum", "format")), json_values, max_size=4
    )
)
def test_json_is_read_back_as_it_was_written(value: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        write_json(Path(folder) / "x.json", value)
        assert read_json(Path(folder) / "x.json", newest_format=1) == value


FIELDS = {
    "format": 1,
    "name": "Müller ½",
    "x": 0.30000000000000004,
    "y": 1e-07,
    "list": [1, {"deep": None}],
    "z": True,
}


def damaged(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(DamagedError, match=rf"{file.name} is damaged .*: restore or rebuild it"):
        read_json(file, newest_format=1)


def test_every_flipped_bit_of_a_json_file_is_detected(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", FIELDS)
    good = (tmp_path / "x.json").read_bytes()
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        damaged(tmp_path / "x.json", bytes(bad))


def test_every_truncation_of_a_json_file_is_detected(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", FIELDS)
    good = (tmp_path / "x.json").read_bytes()
    for length in range(len(good)):
        damaged(tmp_path / "x.json", good[:length])


@pytest.mark.parametrize(
    "junk", [b"[1, 2]", b"3", b"{}", b'{"x": NaN}', b'{"x": 1e999}', b"\xff\xfe", b"\0" * 99]
)
def test_a_file_that_knnlm_did_not_write_is_damaged(tmp_path: Path, junk: bytes) -> None:
    damaged(tmp_path / "x.json", junk)


def test_a_newer_format_is_refused_only_where_a_limit_is_given(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"format": 3})
    assert (
        read_json(tmp_path / "x.json")
        == read_json(tmp_path / "x.json", newest_format=3)
        == {"format": 3}
    )
    with pytest.raises(
        KnnlmError,
        match=r"x\.json has format 3 but this knnlm reads up to 2: install a newer knnlm",
    ):
        read_json(tmp_path / "x.json", newest_format=2)


@pytest.mark.parametrize("depth", [200, 500, 900, 1100, 100_000])
def test_json_that_is_nested_too_deep_is_damaged(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"a": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(DamagedError, match=r"deep\.json is damaged \("):
        read_json(file)
