"""Hidden states that changed on disk are noticed by whatever reads them, however little of them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm.components import KNN, FullDatastore
from knnlm.datastore.entries import Entries, open_entries
from knnlm.errors import DamagedError
from knnlm.search import Retrieval, SuccessorSearch, neighbors_in_other_documents, open_search
from knnlm.similarity import longest_state

USES: dict[str, Callable[[Entries, str, Entries], object]] = {
    "recall": lambda s, index, valid: KNN(s, by_index(index)).recall(valid),
    "exact search": lambda s, index, valid: KNN(s, Retrieval(k=4)).prepare(),
    "exact scores": lambda s, index, valid: open_search(s, Retrieval(k=4, index=index)),
    "full datastore": lambda s, index, valid: FullDatastore(s, "att").logprobs(torch.zeros(1, 16)),
    "other documents": lambda s, index, valid: list(
        neighbors_in_other_documents(s, "att", 2, "l2")
    ),
    "inner products": lambda s, index, valid: longest_state(s.key("att")),
    "successors": lambda s, index, valid: reused(s, by_index(index)),
}


def by_index(index: str) -> Retrieval:
    return Retrieval(k=4, index=index, score="index")


def reused(store: Entries, retrieval: Retrieval) -> None:
    """A step of generation whose neighbors are those that follow the last."""
    search = SuccessorSearch(store, retrieval, open_search(store, retrieval), least=1)
    state = np.zeros((1, store.key("att").type.width), np.float16)
    near = search(state, None)
    search(state, store.targets[near.ids[:, 0]])


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_it_is_noticed(
    store: Entries,
    index: str,
    valid: Entries,
    tmp_path: Path,
    use: Callable[[Entries, str, Entries], object],
) -> None:
    folder = Path(shutil.copytree(store.path, tmp_path / "store"))
    use(open_entries(folder), index, valid)
    file = folder / "parts/000000/att.npy"
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedError, match=r"att\.npy is damaged \(its checksum differs\)"):
        use(open_entries(folder), index, valid)
