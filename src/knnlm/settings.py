"""What `tune` found, kept beside the store for `eval` and whoever comes after.

    STORE/tuned.json    one entry for each way of retrieving that was tuned

Knows nothing of how settings are found.
"""

from dataclasses import asdict
from typing import Any

from knnlm.errors import KnnlmError
from knnlm.evaluation import Tuned
from knnlm.files import fingerprint, only_writer, read_json, write_json
from knnlm.search.cache import EXACT, Retrieval
from knnlm.states.store import Store

FORMAT = 1


def save_tuned(store: Store, tuned: Tuned) -> None:
    """Keep these settings; earlier ones of the same key, metric, mask and score are replaced."""
    file = store.path / "tuned.json"
    with only_writer(store.path):
        kept = read_json(file, newest_format=FORMAT)["settings"] if file.is_file() else {}
        name = fingerprint({k: v for k, v in asdict(tuned.retrieval).items() if k != "k"})
        kept[name] = {**tuned._asdict(), "retrieval": asdict(tuned.retrieval)}
        write_json(file, {"format": FORMAT, "settings": kept})


def load_tuned(store: Store) -> list[Tuned]:
    """All settings, the best on validation first."""
    file = store.path / "tuned.json"
    if not file.is_file():
        return []
    entries = read_json(file, newest_format=FORMAT)["settings"].values()
    found = [Tuned(**{**entry, "retrieval": Retrieval(**entry["retrieval"])}) for entry in entries]
    return sorted(found, key=lambda t: t.interp_ppl / t.base_ppl)


def choose_tuned(store: Store, **wanted: Any) -> Tuned:
    """The best settings that agree with every given (not None) field of Retrieval."""
    for tuned in load_tuned(store):
        have = asdict(tuned.retrieval)
        if all(value is None or have[name] == value for name, value in wanted.items()):
            return tuned
    where = store.path
    asked = ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None)
    flags = " --exact" if wanted.get("mask") == EXACT else ""
    raise KnnlmError(
        f"{where} is not tuned{f' for {asked}' if asked else ''}: run 'knnlm tune {where} --text VALID{flags}' "
        "first, or give --lambda and --temperature"
    )
