"""Whatever is given to a public method, a wrong type is a sentence and no traceback."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from knnlm import (
    KNNLM,
    Datastore,
    HubDataset,
    Sampling,
    UsageError,
    load_model,
    run_demo,
    train,
)

CALLS: dict[str, Callable[..., Any]] = {
    "Datastore.build": Datastore.build,
    "Datastore.open": Datastore.open,
    "Datastore.build_index": Datastore.build_index,
    "Datastore.search": Datastore.search,
    "Datastore.hidden_states": Datastore.hidden_states,
    "Datastore.queries": Datastore.queries,
    "Datastore.distill": Datastore.distill,
    "Datastore.combine": Datastore.combine,
    "KNNLM": KNNLM,
    "KNNLM.tune": KNNLM.tune,
    "KNNLM.evaluate": KNNLM.evaluate,
    "KNNLM.generate": KNNLM.generate,
    "KNNLM.explain": KNNLM.explain,
    "Sampling": Sampling,
    "train": train,
    "load_model": load_model,
    "run_demo": run_demo,
    "HubDataset": HubDataset,
}


class Wrong:
    """No parameter takes one."""


def every_parameter() -> Iterator[tuple[str, str]]:
    for name, call in CALLS.items():
        for parameter in inspect.signature(call).parameters:
            if parameter != "self" and (name, parameter) != ("Datastore.search", "queries"):
                yield name, parameter


@pytest.mark.parametrize(("name", "parameter"), list(every_parameter()))
def test_a_wrong_type_is_a_sentence(name: str, parameter: str) -> None:
    """It is said before anything is done, so the other arguments only have to look right."""
    call, given = CALLS[name], {}
    for other, described in inspect.signature(call).parameters.items():
        if described.default is inspect.Parameter.empty:
            given[other] = ["x"] if other == "components" else "x"
    with pytest.raises(UsageError, match=f"^`{parameter}` is a Wrong.*: give "):
        call(**{**given, parameter: Wrong()})


@pytest.mark.parametrize("queries", [np.zeros((2, 3)), [["a"] * 24], np.zeros((1, 2, 24)), None])
def test_queries_that_are_no_hidden_states(store: Datastore, queries: Any) -> None:
    with pytest.raises(UsageError, match=r"do not fit att states of width \d+: give an array"):
        store.search(queries)
