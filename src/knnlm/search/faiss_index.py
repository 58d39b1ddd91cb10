"""Making a FAISS index: train, fill, set nprobe, write.

FAISS says little when something is wrong: its exceptions become one sentence here, and what it
would leave at a silent default (nprobe is 1) is set and read back. Datastores, manifests and recall
are the business of index.py.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, assert_never

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.disk import new_file
from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.files import changed_file, read_json, write_json
from knnlm.progress import ProgressBar, log
from knnlm.search.factory import augmented_width
from knnlm.similarity import Metric, as_float32, longest_state
from knnlm.stored_fields import FileList, check_fields

TRAINED_FILE, TRAINED_RECORD = "trained.faiss", "trained.json"
_ADDED_AT_ONCE = 1 << 16
_WRITTEN_AT_ONCE = 1 << 20
_TRAINED_ON_PER_LIST = 256
_TRAINED_ON_LEAST = 1 << 16


def faiss_metric(metric: Metric) -> Any:
    """FAISS's constant for a metric."""
    match metric:
        case "l2":
            return faiss.METRIC_L2
        case "ip":
            return faiss.METRIC_INNER_PRODUCT
        case _:
            assert_never(metric)


class IndexedStates(NamedTuple):
    """Stored states as an index takes them.

    Inner products are not distances: the states with the greatest are far away, in lists that a
    search does not visit. With one number more they are at the same distance from the origin,

        w' = (w, √(‖w‖²_max - ‖w‖²)),   q' = (q, 0):   ‖q' - w'‖² = ‖q‖² + ‖w‖²_max - 2 q·w

    and the nearest by L2 have the greatest products. Zeros make the width a multiple of four.
    """

    keys: Column
    metric: Metric
    augmented: bool

    @property
    def width(self) -> int:
        """How many numbers an indexed state has."""
        return augmented_width(self.keys.type.width) if self.augmented else self.keys.type.width

    @property
    def faiss_metric(self) -> Any:
        """FAISS's constant for the metric of the index."""
        return faiss_metric("l2" if self.augmented else self.metric)

    def prepared(self, states: NDArray[Any]) -> NDArray[np.float32]:
        """Stored states in fp32, with what is added to them."""
        wide = as_float32(states)
        if not self.augmented:
            return wide
        padded = as_indexed_queries(wide, self.width)
        rest = longest_state(self.keys) - np.einsum("nd,nd->n", wide, wide)
        padded[:, wide.shape[1]] = np.sqrt(np.maximum(rest, 0))
        return padded

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Random ones in the order of ids; all of them where `count` is not fewer."""
        return self.prepared(sample_states(self.keys, count, seed))


def as_indexed_queries(queries: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Queries with as many zeros as an index of this width needs."""
    if queries.shape[1] == width:
        return queries
    return np.pad(queries, ((0, 0), (0, width - queries.shape[1])))


def trained_index(states: IndexedStates, factory: str, seed: int, folder: Path) -> Any:
    """An empty, trained index; what training gave is kept in `folder`, so a rerun does not repeat
    it."""
    saved = folder / TRAINED_FILE
    if _is_whole(folder):
        return faiss.read_index(str(saved))
    try:
        index = faiss.index_factory(states.width, factory, states.faiss_metric)
    except RuntimeError as error:
        raise UsageError(
            f"FAISS cannot make '{factory}' for states of width {states.width}: see the FAISS "
            "index factory for valid strings"
        ) from error
    if not index.is_trained:
        _train(index, states, factory, seed)
        written = write_index(index, saved)
        write_json(folder / TRAINED_RECORD, {TRAINED_FILE: written})
    return index


def drop_trained_index(folder: Path) -> None:
    """Delete what `trained_index` kept, once the index is there."""
    for name in (TRAINED_RECORD, TRAINED_FILE):
        (folder / name).unlink(missing_ok=True)


def _is_whole(folder: Path) -> bool:
    """Whether a trained index is there and is what was written."""
    try:
        record = folder / TRAINED_RECORD
        return changed_file(folder, check_fields(FileList, read_json(record), record, "")) is None
    except (DamagedError, FileNotFoundError):
        return False


def add_entries(index: Any, states: IndexedStates, added: Column | None = None) -> None:
    """Put stored states into the index, in the order of ids.

    Args:
        index: The FAISS index.
        states: How states are prepared; all of them are put in by default.
        added: Further states, which come after those.
    """
    keys = states.keys if added is None else added
    with ProgressBar("index", len(keys), "entries") as meter:
        for _, block in keys.blocks(_ADDED_AT_ONCE):
            _explained("the index", index.add, states.prepared(block))
            meter.advance(len(block))


def set_nprobe(index: Any, nprobe: int) -> None:
    """Set how many lists are visited, through any wrapper, and read it back; FAISS alone would
    leave it at 1."""
    ivf = faiss.try_extract_index_ivf(index)
    if ivf is not None:
        ivf.nprobe = min(nprobe, ivf.nlist)
        inner: Any = faiss.extract_index_ivf(index)
        assert inner.nprobe == min(nprobe, ivf.nlist)


def sample_states(keys: Column, count: int, seed: int) -> NDArray[np.float32]:
    """Random stored states in the order of ids; all of them where `count` is not fewer."""
    if count >= len(keys):
        return as_float32(keys.all())
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(len(keys), size=count, replace=False))
    return as_float32(keys.gather(ids))


def write_index(index: Any, file: Path) -> dict[str, Any]:
    """Write an index; it appears under its name only when it is whole.

    FAISS does not notice when the disk is full while the last bytes are flushed, so Python writes.

    Returns:
        Its size and checksum for a manifest: of the bytes that FAISS gave, not of the file.
    """
    writer: Any = faiss
    with new_file(file, read_back=True) as new:
        try:
            faiss.write_index(index, writer.PyCallbackIOWriter(new.write, _WRITTEN_AT_ONCE))
        except RuntimeError as error:
            raise KnnlmError(
                f"FAISS cannot write {file} ({_reason(error)}): choose another `factory`"
            ) from error
    return {"bytes": new.bytes, "xxh3": new.checksum}


def _train(index: Any, keys: IndexedStates, factory: str, seed: int) -> None:
    began = time.monotonic()
    ivf = faiss.try_extract_index_ivf(index)
    count = max(_TRAINED_ON_LEAST, _TRAINED_ON_PER_LIST * ivf.nlist if ivf is not None else 0)
    states = keys.sample(count, seed)
    if ivf is not None and len(states) < ivf.nlist:
        raise UsageError(
            f"'{factory}' needs at least {ivf.nlist:,} entries and the datastore has "
            f"{len(keys.keys):,}: use fewer lists"
        )
    if ivf is not None:
        # FAISS would warn on C's stderr; recall is measured in any case
        ivf.cp.min_points_per_centroid = 1
    _explained(factory, index.train, states)
    log.info(f"trained {factory} on {len(states):,} states in {time.monotonic() - began:.1f} s")


def _explained(
    subject: str, call: Callable[[NDArray[np.float32]], None], states: NDArray[np.float32]
) -> None:
    """Call FAISS with states; what it raises is about the factory string, the width or the number
    of states."""
    try:
        call(states)
    except RuntimeError as error:
        raise KnnlmError(
            f"FAISS cannot build {subject} from {states.shape[0]:,} states of width "
            f"{states.shape[1]} ({_reason(error)}): choose another `factory`"
        ) from error


def _reason(error: RuntimeError) -> str:
    """What FAISS says beside where in its code it was."""
    return str(error).strip().splitlines()[-1].partition("Error: ")[2] or "it gives no reason"
