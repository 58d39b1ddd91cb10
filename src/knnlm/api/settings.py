"""Settings that a user leaves open, decided: which index, how a search retrieves, λ and τ.

Nothing here imports a model library, so that the command line can refuse a wrong one at once.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm.components import KNN_NAME, component_record
from knnlm.datastore import Entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation import CalibratedSettings, TunedSettings, choose_settings
from knnlm.progress import log
from knnlm.search import EXACT, Retrieval, Score, check_index, index_manifest, list_indexes
from knnlm.similarity import checked_metric


def index_of(entries: Entries, key: str, metric: str) -> str | None:
    """The datastore's only index for this key and metric; None, exact search, if there is none.

    Raises:
        UsageError: If there are several.
    """
    fitting = [name for name in list_indexes(entries) if name.startswith(f"{key}-{metric}-")]
    if len(fitting) > 1:
        raise UsageError(
            f"{entries.path} has several indexes of {key} and {metric}: name one with `index`: "
            f"{', '.join(fitting)}"
        )
    if not fitting:
        log.info(f"{entries.path} has no index of {key} and {metric}: searching exactly")
        return None
    return fitting[0]


def query_states(entries: Entries, key: str, queries: NDArray[Any]) -> NDArray[Any]:
    """Queries as an array (Q, D), after checking that they fit the stored hidden states.

    Raises:
        UsageError: They have another width, or are not numbers.
        KnnlmError: The key is not stored.
    """
    asked = np.atleast_2d(np.asarray(queries))
    width = entries.key(key).type.width
    if asked.ndim != 2 or asked.shape[1] != width or asked.dtype.kind not in "fiu":
        raise UsageError(
            f"queries of shape {np.shape(queries)} do not fit {key} states of width {width}: "
            f"give an array of shape (queries, {width})"
        )
    return asked


def search_retrieval(
    entries: Entries, key: str, metric: str, *, exact: bool | None, index: str | None, k: int
) -> Retrieval:
    """How a search of one key retrieves: exactly, unless `index` or `exact` says otherwise.

    Raises:
        UsageError: The metric is unknown, k is out of range, `index` and `exact` contradict each
            other, or there are several indexes and none is named.
    """
    if index is not None and exact:
        raise UsageError("`index` and `exact` exclude each other: give one of them")
    if index == EXACT:
        index = None
    chosen = checked_metric(metric)
    if index is None and exact is False:
        index = index_of(entries, key, chosen)
    return Retrieval(key=key, metric=chosen, index=index, score="index", k=k)


def retrieval_wishes(
    entries: Entries,
    *,
    key: str | None,
    metric: str | None,
    index: str | None,
    exact: bool,
    score: Score | None,
) -> dict[str, Any]:
    """The fields of a retrieval that were asked for, after checking that they exist."""
    if index is not None and exact:
        raise UsageError("`index` and `exact` exclude each other: give one of them")
    if index == EXACT:
        index, exact = None, True
    wishes: dict[str, Any] = {}
    if key is not None:
        entries.key(key)
        wishes["key"] = key
    if metric is not None:
        wishes["metric"] = checked_metric(metric)
    if index is not None:
        index_manifest(entries, index)
        wishes["index"] = index
    if score is not None:
        wishes["score"] = Retrieval(index="any", score=score).score  # refuses an unknown one
        if exact and score != "exact":
            raise UsageError("exact search has exact scores: leave out `score`")
        if not exact and list_indexes(entries):  # exact search has exact scores too, but is no wish
            wishes["exact"] = False
    if exact:
        wishes |= {"index": None, "score": "exact"}
    return wishes


def retrieval_of(entries: Entries, wishes: dict[str, Any], **fields: Any) -> Retrieval:
    """A retrieval with what was asked for; the rest is the datastore's first key, L2, its index."""
    key = wishes.get("key", entries.keys[0])
    metric = wishes.get("metric", "l2")
    index = wishes["index"] if "index" in wishes else index_of(entries, key, metric)
    chosen = {"score": "index", **wishes, "key": key, "metric": metric, "index": index}
    chosen.pop("exact", None)
    retrieval = Retrieval(**{**chosen, **fields})
    entries.key(retrieval.key)
    check_index(entries, retrieval)
    return retrieval


def settings_of(
    entries: Entries,
    component: str,
    wishes: dict[str, Any],
    *,
    k: int | None,
    lam: float | None,
    tau: float | None,
) -> TunedSettings:
    """The tuned settings of a component with what was given instead of them.

    Both λ and τ do without tuning.

    Raises:
        KnnlmError: If the component is not tuned and λ or τ is not given.
    """
    if component != KNN_NAME:
        component_record(entries, component)
    tuned = choose_settings(entries, component, **wishes)
    if tuned is None:
        if lam is None or tau is None:
            raise _not_tuned(entries, component, wishes)
        retrieval = retrieval_of(entries, wishes) if component == KNN_NAME else None
        tuned = TunedSettings(component=component, retrieval=retrieval, lam=lam, tau=tau)
    if k is not None and tuned.retrieval is not None:
        tuned = replace(tuned, retrieval=replace(tuned.retrieval, k=k))
    if lam is not None:
        tuned = replace(tuned, lam=lam, calibrated=_with(tuned.calibrated, lam=lam))
    if tau is not None:  # another τ keeps the unit it is measured in
        unit = tuned.tau / tuned.tau_units
        control = _with(tuned.calibrated, tau=tau)
        tuned = replace(tuned, tau=tau, tau_units=tau / unit, calibrated=control)
    if tuned.retrieval is not None:
        entries.key(tuned.retrieval.key)
        check_index(entries, tuned.retrieval)
    return tuned


def _not_tuned(entries: Entries, component: str, wishes: dict[str, Any]) -> KnnlmError:
    """An error that says how to tune for what was wanted."""
    asked = [f"`component` {component}"] if component != KNN_NAME else []
    for name, value in wishes.items():
        if name == "index" and value is None:
            asked.append("`exact`")
        elif name != "exact" and not (name == "score" and wishes.get("index", "") is None):
            asked.append(f"`{name}` {value}")
    wanted = f" for {', '.join(asked)}" if asked else ""
    return KnnlmError(
        f"{entries.path} is not tuned{wanted}: run `KNNLM.tune` first, or give `lam` and `tau`"
    )


def _with(
    control: CalibratedSettings | None, *, lam: float | None = None, tau: float | None = None
) -> CalibratedSettings | None:
    """The control at a λ or τ that was given: what is compared differs in the LM only."""
    if control is None:
        return None
    return replace(
        control,
        lam=control.lam if lam is None else lam,
        tau=control.tau if tau is None else tau,
    )
