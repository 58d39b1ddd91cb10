"""Tuned settings on disk: one entry for each component and retrieval, the latest text first."""

import dataclasses
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from knnlm.datastore.entries import Entries, open_entries
from knnlm.errors import DamagedError, KnnlmError
from knnlm.evaluation.settings import (
    TunedSettings,
    choose_settings,
    forget_settings,
    load_settings,
    save_settings,
)
from knnlm.files import fingerprint, read_json, write_json
from knnlm.search.retrieval import Retrieval

INDEX = "att-l2-IVF8,Flat-probe4"


@pytest.fixture
def own(store: Entries, tmp_path: Path) -> Entries:
    """A copy for every test: settings are written into it."""
    shutil.copytree(store.path, tmp_path / "store", ignore=shutil.ignore_patterns("cache"))
    return open_entries(tmp_path / "store")


def tuned(ppl: float, text: str = "valid", **fields: Any) -> TunedSettings:
    return TunedSettings(
        lam=0.25,
        tau=8.0,
        tau_units=0.5,
        base_ppl=60.0,
        interp_ppl=ppl,
        tokens=900,
        text=text,
        **fields,
    )


EVERY = [
    tuned(50.0, retrieval=Retrieval(k=64)),
    tuned(49.0, retrieval=Retrieval(k=64, key="ffn")),
    tuned(51.0, retrieval=Retrieval(k=64, metric="ip")),
    tuned(52.0, retrieval=Retrieval(k=64, index=INDEX, score="index")),
    tuned(53.0, retrieval=Retrieval(k=64, index=INDEX, score="exact")),
    tuned(54.0, component="head"),
    tuned(48.0, component="mixture"),
]


def test_what_is_saved_is_what_is_loaded_the_best_first(own: Entries) -> None:
    assert load_settings(own) == []
    assert choose_settings(own) is None
    for settings in EVERY:
        save_settings(own, settings)
    assert load_settings(own) == sorted(EVERY, key=lambda settings: settings.interp_ppl)
    written = read_json(own.path / "tuned.json")
    assert written["format"] == 3
    assert [each["lambda"] for each in written["settings"].values()] == [0.25] * len(EVERY)


def test_settings_are_chosen_by_component_and_by_fields_of_the_retrieval(own: Entries) -> None:
    for settings in EVERY:
        save_settings(own, settings)
    assert choose_settings(own) == EVERY[1]
    assert choose_settings(own, key="att") == EVERY[0]
    assert choose_settings(own, metric="ip") == EVERY[2]
    assert choose_settings(own, index=INDEX) == EVERY[3]
    assert choose_settings(own, index=INDEX, score="exact") == EVERY[4]
    assert choose_settings(own, index=None, key="ffn") == EVERY[1]
    assert choose_settings(own, key="ffn", metric="ip") is None
    assert choose_settings(own, "head") == EVERY[5]
    assert choose_settings(own, "mixture") == EVERY[6]
    assert choose_settings(own, "mlp") is None
    assert choose_settings(own, "head", key="att") is None  # it retrieves nothing


@pytest.mark.parametrize("old", EVERY)
def test_the_same_component_and_retrieval_is_replaced(own: Entries, old: TunedSettings) -> None:
    for settings in EVERY:
        save_settings(own, settings)
    retrieval = old.retrieval and dataclasses.replace(old.retrieval, k=7)
    new = dataclasses.replace(old, retrieval=retrieval, interp_ppl=90.0, lam=0.1)
    save_settings(own, new)
    others = sorted((s for s in EVERY if s is not old), key=lambda settings: settings.interp_ppl)
    assert load_settings(own) == [*others, new]


def test_settings_of_the_text_tuned_on_last_come_first(own: Entries) -> None:
    for settings in EVERY[:3]:
        save_settings(own, settings)
    latest = tuned(400.0, "another text", retrieval=Retrieval(k=9))  # replaces the first
    save_settings(own, latest)
    assert load_settings(own) == [latest, EVERY[1], EVERY[2]]
    save_settings(own, EVERY[2])  # its text is the latest again
    assert load_settings(own) == [EVERY[1], EVERY[2], latest]


def test_settings_of_a_component_are_forgotten_with_it(own: Entries) -> None:
    forget_settings(own, "head")
    for settings in EVERY:
        save_settings(own, settings)
    forget_settings(own, "head")
    assert choose_settings(own, "head") is None
    assert len(load_settings(own)) == len(EVERY) - 1


def test_numbers_that_are_not_known_are_null() -> None:
    given = TunedSettings(retrieval=Retrieval(k=4), lam=0.5, tau=2.0)
    fields = given.as_json()
    assert (fields["base_ppl"], fields["temperature_units"]) == (None, None)
    again = TunedSettings.from_json(fields)
    assert math.isnan(again.tau_units)
    assert math.isnan(again.interp_ppl)
    assert dataclasses.replace(again, tau_units=1.0, base_ppl=1.0, interp_ppl=1.0) == (
        dataclasses.replace(given, tau_units=1.0, base_ppl=1.0, interp_ppl=1.0)
    )


@pytest.mark.parametrize("settings", EVERY)
def test_json_there_and_back(settings: TunedSettings) -> None:
    assert TunedSettings.from_json(settings.as_json()) == settings


def earlier(mask: str, score: str, ppl: float, text: str = "valid") -> dict[str, Any]:
    """Settings as the first format spelled them."""
    return {
        "retrieval": {"key": "att", "metric": "l2", "mask": mask, "score": score, "k": 64},
        "lam": 0.25,
        "temperature": 8.0,
        "temperature_units": 0.5,
        "base_ppl": 60.0,
        "interp_ppl": ppl,
        "tokens": 900,
        "text": text,
    }


def write_earlier(store: Entries, *every: dict[str, Any]) -> None:
    named = {
        fingerprint({n: v for n, v in each["retrieval"].items() if n != "k"}): each
        for each in every
    }
    write_json(store.path / "tuned.json", {"format": 1, "settings": named})


def test_settings_of_the_first_format_are_read(own: Entries) -> None:
    write_earlier(
        own,
        earlier("exact", "real", 50.0),
        earlier(INDEX, "search", 52.0),
        earlier(INDEX, "real", 53.0),
    )
    assert load_settings(own) == [EVERY[0], EVERY[3], EVERY[4]]
    assert choose_settings(own, score="index") == EVERY[3]


def test_settings_of_the_first_format_are_replaced_by_new_ones(own: Entries) -> None:
    write_earlier(own, earlier("exact", "real", 50.0, "older text"), earlier(INDEX, "search", 52.0))
    save_settings(own, dataclasses.replace(EVERY[0], lam=0.5))
    assert load_settings(own) == [dataclasses.replace(EVERY[0], lam=0.5), EVERY[3]]
    assert read_json(own.path / "tuned.json")["format"] == 3


def test_a_newer_format_is_refused(own: Entries) -> None:
    write_json(own.path / "tuned.json", {"format": 4, "settings": {}})
    for refused in (load_settings, choose_settings):
        with pytest.raises(KnnlmError, match="has format 4 but this knnlm reads up to 3: install"):
            refused(own)
    with pytest.raises(KnnlmError, match="has format 4"):
        save_settings(own, EVERY[0])
    assert read_json(own.path / "tuned.json") == {"format": 4, "settings": {}}


def test_damaged_settings_are_refused(own: Entries) -> None:
    save_settings(own, EVERY[0])
    file = own.path / "tuned.json"
    file.write_text(file.read_text().replace("0.25", "0.35"))
    with pytest.raises(DamagedError, match=r"tuned\.json is damaged"):
        load_settings(own)
