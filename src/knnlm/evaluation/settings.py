"""What `tune` found, kept beside the store for `eval` and whoever comes after.

    STORE/tuned.json    one entry for each way of retrieving that was tuned

Knows nothing of how settings are found.
"""

from typing import Any

from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError
from knnlm.evaluation.tuning import TunedSettings
from knnlm.files import fingerprint, read_json, write_json, write_lock
from knnlm.search.retrieval import EXACT, Retrieval

FORMAT = 1


def save_settings(store: Entries, tuned: TunedSettings) -> None:
    """Keep these settings; earlier ones of the same key, metric, mask and score are replaced."""
    file = store.path / "tuned.json"
    with write_lock(store.path, patience=10):
        kept = read_json(file, newest_format=FORMAT)["settings"] if file.is_file() else {}
        name = fingerprint({k: v for k, v in tuned.retrieval.as_json().items() if k != "k"})
        kept.pop(name, None)  # the newest comes last
        kept[name] = {**tuned._asdict(), "retrieval": tuned.retrieval.as_json()}
        write_json(file, {"format": FORMAT, "settings": kept})


def load_settings(store: Entries) -> list[TunedSettings]:
    """All settings: those of the text tuned on last come first, the best of them at the head.

    Perplexities of different texts do not compare, so settings compete only with those of their own
    text."""
    file = store.path / "tuned.json"
    if not file.is_file():
        return []
    entries = read_json(file, newest_format=FORMAT)["settings"].values()
    found = [
        TunedSettings(**{**entry, "retrieval": Retrieval.from_json(entry["retrieval"])})
        for entry in entries
    ]
    latest = found[-1].text if found else ""
    return sorted(found, key=lambda t: (t.text != latest, t.interp_ppl))


def choose_settings(store: Entries, **wanted: Any) -> TunedSettings | None:
    """The best settings that agree with every given (not None) field of Retrieval."""
    for tuned in load_settings(store):
        have = tuned.retrieval.as_json()
        if all(value is None or have[name] == value for name, value in wanted.items()):
            return tuned
    return None


def not_tuned(store: Entries, tau_option: str = "--temperature", **wanted: Any) -> KnnlmError:
    """An error that says how to tune for what was wanted."""
    given = {name: value for name, value in wanted.items() if value is not None}
    flags = {"mask": " --index", "key": " --key", "metric": " --metric", "score": " --score"}
    options = "".join(
        " --exact" if name == "mask" and value == EXACT else f"{flags[name]} {value}"
        for name, value in given.items()
        if not (name == "score" and given.get("mask") == EXACT)
    )
    asked = f" for {', '.join(f'{name} {value}' for name, value in given.items())}" if given else ""
    return KnnlmError(
        f"{store.path} is not tuned{asked}: run 'knnlm tune {store.path} --text VALID{options}' "
        "first, or give "
        f"--lambda and {tau_option}"
    )
