"""A column is compared with its checksums when it is first used, whoever uses it, and once."""

import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from knnlm.datastore.entries import Entries, open_entries
from knnlm.disk import checksum_file
from knnlm.errors import DamagedError

Use = Callable[[Entries], object]
USES: dict[str, tuple[str, Use]] = {
    "states": ("att", lambda entries: entries.states(["att"])),
    "some rows": ("att", lambda entries: entries.key("att").read(0, 1)),
    "a view": ("ffn", lambda entries: entries.key("ffn").view(2, 4)),
    "rows by number": ("ffn", lambda entries: entries.key("ffn").gather(np.array([0, 3]))),
    "blocks": ("ffn", lambda entries: list(entries.key("ffn").blocks(100))),
    "parts": ("att", lambda entries: entries.key("att").parts),
    "targets": ("target", lambda entries: entries.targets),
    "the text after": ("target", lambda entries: entries.continuation(0, 2)),
    "the text before": ("position", lambda entries: entries.context(3, 2)),
    "a document": ("document", lambda entries: entries.document_of(0)),
    "all documents": ("document", lambda entries: entries.document_numbers),
    "the LM": ("lm_logprob", lambda entries: entries.lm_logprob),
}


@pytest.fixture
def store(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "store"))


def flip(store: Path, column: str) -> Path:
    """Change a bit in the last part, far from what most uses read."""
    file = store / f"parts/000002/{column}.npy"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(("column", "use"), USES.values(), ids=USES)
def test_damage_is_noticed_before_the_first_use(store: Path, column: str, use: Use) -> None:
    file = flip(store, column)
    entries = open_entries(store)  # opening reads no column
    for _ in range(2):  # damage that was noticed stays
        with pytest.raises(DamagedError, match=f"^{re.escape(str(file))} is damaged"):
            use(entries)


@pytest.mark.parametrize(("column", "use"), USES.values(), ids=USES)
def test_a_column_is_compared_once(store: Path, column: str, use: Use) -> None:
    entries = open_entries(store)
    use(entries)
    flip(store, column)
    use(entries)  # not read again from beginning to end


def test_what_verify_compared_is_not_compared_again(store: Path) -> None:
    entries = open_entries(store)
    entries.verify()
    flip(store, "att")
    entries.key("att").read(0, 1)
    with pytest.raises(DamagedError):  # who asks for it again gets it again
        entries.verify("att")


def test_its_type_and_length_are_known_without_reading_it(store: Path) -> None:
    flip(store, "att")
    column = open_entries(store).key("att")
    assert (len(column), column.type.dtype) == (column.starts[-1], "<f2")


def test_cores_that_begin_together_compare_it_once(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Path] = []

    def noted(file: Path) -> str:
        compared.append(file)
        return checksum_file(file)

    monkeypatch.setattr("knnlm.datastore.table.checksum_file", noted)
    column = open_entries(store).key("att")
    cores = [threading.Thread(target=column.read, args=(0, 9)) for _ in range(8)]
    for core in cores:
        core.start()
    for core in cores:
        core.join()
    assert len(compared) == len(set(compared)) == 3
