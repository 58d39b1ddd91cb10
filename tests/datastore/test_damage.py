"""Whatever happens to a store's files, it is noticed, named, and never read as if it were whole."""

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from knnlm.datastore.entries import open_entries
from knnlm.datastore.part_files import DOCUMENTS
from knnlm.datastore.table import MANIFEST, ColumnType, open_table, verify_table
from knnlm.datastore.table_writer import TableWriter
from knnlm.disk import checksum_file
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import read_json, write_json

COLUMNS = ("att", "ffn", "lm_logprob", "target", "document", "position")
FILES = [
    MANIFEST,
    *(
        f"parts/{part:06d}/{name}"
        for part in range(3)
        for name in (*map("{}.npy".format, COLUMNS), DOCUMENTS)
    ),
]
FLIPS_IN_EACH = 25


@pytest.fixture
def store(pristine: Path, tmp_path: Path) -> Path:
    """A copy of the store that may be harmed."""
    return Path(shutil.copytree(pristine, tmp_path / "store"))


def check(store: Path) -> None:
    """Open a store and read all of it, as `knnlm verify` does."""
    open_entries(store).verify()


def noticed(store: Path, file: Path, how: str = r"(damaged \(.+\)|missing)") -> None:
    with pytest.raises(DamagedError, match=f"^{re.escape(str(file))} is {how}: restore"):
        check(store)


def test_the_store_has_just_these_files_and_is_whole(store: Path) -> None:
    found = {str(f.relative_to(store)) for f in store.rglob("*") if f.is_file()}
    assert found == {*FILES, ".lock"}
    check(store)


@pytest.mark.parametrize("name", FILES)
def test_any_flipped_bit_is_noticed_and_its_file_named(store: Path, name: str) -> None:
    file, chance = store / name, random.Random(name)
    good = file.read_bytes()
    for bit in chance.sample(range(len(good) * 8), FLIPS_IN_EACH):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bad)
        noticed(store, file)
    file.write_bytes(good)
    check(store)


def test_any_flipped_bit_of_a_header_is_noticed(tmp_path: Path) -> None:
    """NumPy reads a header as Python, so damage there has many faces."""
    column = ColumnType("<f2", 16)
    with TableWriter(tmp_path, "things", {"x": column}, {}) as writer:
        writer.append({"x": np.zeros(column.shape(37), "<f2")})
        writer.finish({})
    file = tmp_path / "parts/000000/x.npy"
    good = file.read_bytes()
    for bit in range(8 * (len(good) - np.load(file).nbytes)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bad)
        with pytest.raises(DamagedError, match=r"x\.npy is damaged \(.+\): restore"):
            verify_table(open_table(tmp_path, "things"))


@pytest.mark.parametrize("bit", [1, 2, 4, 5])
def test_a_header_of_another_length_is_noticed_before_rows_are_read_out_of_place(
    store: Path, bit: int
) -> None:
    file = store / "parts/000001/ffn.npy"
    data = bytearray(file.read_bytes())
    data[8] ^= 1 << bit
    file.write_bytes(data)
    with pytest.raises(
        DamagedError, match=r"ffn\.npy is damaged \((bad header|its header has another length)\)"
    ):
        open_entries(store)


@pytest.mark.parametrize("name", FILES)
def test_any_truncation_is_noticed(store: Path, name: str) -> None:
    file, chance = store / name, random.Random(name)
    good = file.read_bytes()
    for length in [0, 1, len(good) - 1, *(chance.randrange(len(good)) for _ in range(7))]:
        file.write_bytes(good[:length])
        noticed(store, file)


@pytest.mark.parametrize("name", FILES)
def test_zeros_in_the_place_of_a_file_are_noticed(store: Path, name: str) -> None:
    file = store / name
    file.write_bytes(bytes(file.stat().st_size))
    noticed(store, file)


@pytest.mark.parametrize("name", FILES)
def test_zeros_at_the_end_of_a_file_are_noticed(store: Path, name: str) -> None:
    """A disk that lost its last block: the header is right and the size is right."""
    file = store / name
    kept = file.read_bytes()[:-40]
    file.write_bytes(kept + bytes(40))
    noticed(store, file)


@pytest.mark.parametrize("name", FILES[1:])
def test_a_missing_file_is_named(store: Path, name: str) -> None:
    (store / name).unlink()
    noticed(store, store / name, "missing")


def test_a_missing_part_is_noticed(store: Path) -> None:
    shutil.rmtree(store / "parts/000001")
    with pytest.raises(
        DamagedError, match=r"parts/000001/att\.npy is missing: restore it from a copy"
    ):
        check(store)


def test_a_store_without_its_manifest_is_no_store(store: Path) -> None:
    (store / MANIFEST).unlink()
    with pytest.raises(
        KnnlmError, match=r"is not a datastore \(no manifest\.json\): check the path"
    ):
        check(store)


def test_swapped_parts_are_noticed(store: Path) -> None:
    parts = store / "parts"
    (parts / "000000").rename(parts / "x")
    (parts / "000001").rename(parts / "000000")
    (parts / "x").rename(parts / "000001")
    with pytest.raises(DamagedError, match="parts/00000[01]/.* is damaged"):
        check(store)


@pytest.mark.parametrize("name", ["att.npy", "target.npy", DOCUMENTS])
def test_bytes_of_another_part_are_noticed_where_sizes_and_headers_agree(
    store: Path, name: str
) -> None:
    one, other = store / "parts/000000" / name, store / "parts/000001" / name
    size = min(one.stat().st_size, other.stat().st_size)
    one.write_bytes(
        one.read_bytes()[: size - 8] + other.read_bytes()[size - 8 : size] + one.read_bytes()[size:]
    )
    noticed(store, one, r"damaged \(its checksum differs\)")


def test_junk_beside_the_parts_is_ignored(store: Path) -> None:
    for name in ("000003", "junk"):
        shutil.copytree(store / "parts/000000", store / "parts" / name)
    (store / "parts/000000/new.npy").write_bytes(b"junk")
    (store / "manifest.json.tmp").write_bytes(b"{")
    before = open_entries(store)
    assert before.count == sum(p["rows"] for p in before.table.manifest["parts"])
    check(store)


def test_only_the_columns_asked_for_are_verified(store: Path) -> None:
    file = store / "parts/000002/ffn.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    opened = open_entries(store)
    assert opened.verify("att", "target") > 0
    with pytest.raises(DamagedError, match=r"ffn\.npy is damaged"):
        opened.verify("ffn")


def reseal(store: Path, name: str, change: Callable[[bytearray], None]) -> None:
    """Change a file of part 0 and make its checksum fit: what a forger, or a bug of ours, would
    do."""
    file = store / "parts/000000" / name
    data = bytearray(file.read_bytes())
    change(data)
    file.write_bytes(data)
    manifest = read_json(store / MANIFEST)
    manifest["parts"][0]["files"][name]["xxh3"] = checksum_file(file)
    write_json(store / MANIFEST, manifest)


@pytest.mark.parametrize("token", [-1, 70_000, None])
def test_a_target_outside_the_vocabulary_is_refused_even_where_checksums_fit(
    store: Path, token: int | None
) -> None:
    token = open_entries(store).vocab_size if token is None else token

    def forge(data: bytearray) -> None:
        data[-4:] = token.to_bytes(4, "little", signed=True)

    reseal(store, "target.npy", forge)
    with pytest.raises(
        DamagedError,
        match=f"holds token {token}, outside the model's vocabulary of .*: build it again",
    ):
        check(store)
    with pytest.raises(DamagedError, match="build it again"):
        _ = open_entries(store).targets


def test_damaged_documents_are_noticed_when_they_are_read(store: Path) -> None:
    file = store / "parts/000001" / DOCUMENTS
    file.write_bytes(file.read_bytes().replace(b"0", b"1", 1))
    opened = open_entries(store)
    with pytest.raises(DamagedError, match=rf"parts/000001/{DOCUMENTS} is damaged"):
        opened.document_of(0)


@pytest.mark.parametrize("name", ["target", "lm_logprob"])
def test_damaged_numbers_are_noticed_when_they_are_read(store: Path, name: str) -> None:
    file = store / f"parts/000001/{name}.npy"
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    opened = open_entries(store)
    with pytest.raises(DamagedError, match=rf"parts/000001/{name}\.npy is damaged"):
        _ = opened.targets if name == "target" else opened.lm_logprob
