"""A .npy file that grows is, once closed, a .npy file like any other."""

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from knnlm.datastore.npy import NpyWriter

TYPES = [("<f2", 3), ("<f4", 1), ("<f4", 0), ("<i4", 0), ("<i8", 5)]


def saved(values: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def numbers(rows: int, dtype: str, width: int) -> NDArray[Any]:
    shape = (rows, width) if width else (rows,)
    return np.random.default_rng(rows).integers(-99, 99, shape).astype(dtype)


@given(st.sampled_from(TYPES), st.lists(st.integers(0, 120), max_size=8))
def test_any_cut_into_chunks_gives_the_bytes_of_numpys_own_save(
    kind: tuple[str, int], chunks: list[int]
) -> None:
    values = numbers(sum(chunks), *kind)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "x.npy"
        writer = NpyWriter(file, *kind)
        for chunk in np.split(values, np.cumsum(chunks)):
            writer.write(chunk)
        writer.close()
        assert writer.rows == len(values)
        assert file.read_bytes() == saved(values)
        np.testing.assert_array_equal(np.load(file), values)


def test_the_header_counts_no_rows_until_the_file_is_closed(tmp_path: Path) -> None:
    writer = NpyWriter(tmp_path / "x.npy", "<f4", 1000)
    writer.write(np.ones((100, 1000), "<f4"))  # more than any buffer
    assert np.load(tmp_path / "x.npy").shape == (0, 1000)
    writer.close()
    assert np.load(tmp_path / "x.npy").shape == (100, 1000)


def test_rows_that_are_not_contiguous_are_written_in_order(tmp_path: Path) -> None:
    values = np.arange(60, dtype="<f4").reshape(4, 15).T[::2]
    writer = NpyWriter(tmp_path / "x.npy", "<f4", 4)
    writer.write(values)
    writer.close()
    assert (tmp_path / "x.npy").read_bytes() == saved(np.ascontiguousarray(values))


@pytest.mark.parametrize(
    ("width", "shape"), [(3, (5, 4)), (3, (5,)), (3, (5, 3, 1)), (0, (5, 1)), (0, (5, 3))]
)
def test_rows_of_another_width_are_refused(
    tmp_path: Path, width: int, shape: tuple[int, ...]
) -> None:
    writer = NpyWriter(tmp_path / "x.npy", "<f4", width)
    with pytest.raises(ValueError, match=r"rows of shape .* given, .* expected"):
        writer.write(np.zeros(shape, "<f4"))
    writer.close()
    assert len(np.load(tmp_path / "x.npy")) == 0


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("<i4", np.int64(1 << 31)),
        ("<i4", np.int64(-(1 << 31) - 1)),
        ("<i4", np.float32(1.5)),
        ("<i4", np.nan),
        ("<f2", np.float32(65_520)),
        ("<f2", np.float32(0.1)),
        ("<f4", np.int64((1 << 24) + 1)),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_refused_and_not_changed(
    tmp_path: Path, dtype: str, value: Any
) -> None:
    writer = NpyWriter(tmp_path / "x.npy", dtype, 0)
    with pytest.raises(ValueError, match=r"some values do not fit (int32|float16|float32)"):
        writer.write(np.array([0, value]))
    writer.close()


@pytest.mark.parametrize(
    ("dtype", "value"), [("<i4", np.int64(-(1 << 31))), ("<f2", np.nan), ("<f4", -np.inf)]
)
def test_a_wider_type_is_welcome_where_its_values_fit(
    tmp_path: Path, dtype: str, value: Any
) -> None:
    writer = NpyWriter(tmp_path / "x.npy", dtype, 0)
    writer.write(np.array([0, value]))
    writer.close()
    assert (tmp_path / "x.npy").read_bytes() == saved(np.array([0, value], dtype))


def test_a_discarded_file_is_closed_without_rows(tmp_path: Path) -> None:
    writer = NpyWriter(tmp_path / "x.npy", "<i4", 0)
    writer.write(np.arange(5, dtype="<i4"))
    writer.discard()
    writer.discard()
    with pytest.raises(ValueError, match="closed file"):
        writer.write(np.arange(5, dtype="<i4"))
    assert np.load(tmp_path / "x.npy").shape == (0,)
