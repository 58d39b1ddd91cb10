"""knnlm tune"""

import shlex
from typing import Annotated

import typer

from knnlm import defaults
from knnlm.cli.groups import EvaluationTextOptions, ModelOptions
from knnlm.cli.options import Json, StorePath, numbers, show
from knnlm.errors import UsageError
from knnlm.ranges import check_k, check_temperature

Ks = Annotated[
    str | None,
    typer.Option("--k", help=f"Neighbors ({defaults.K}); several, as in 64,1024: the best."),
]
Taus = Annotated[
    str | None,
    typer.Option("--taus", help="A grid of τ, as in 0.5,1,2, instead of a search."),
]


def tune(
    store: StorePath,
    text: EvaluationTextOptions,
    model: ModelOptions,
    k: Ks = None,
    taus: Taus = None,
    json: Json = False,
) -> None:
    """Find λ and τ on a validation text and keep them.

    λ is fitted exactly; τ is searched in units of the spread of the neighbors' scores. The control
    is fitted too: the calibrated LM, with its own softmax temperature and share of unigrams, which
    retrieves nothing.

    A datastore built with --split has a validation text. If its folder has moved, give the new path
    with --text: it is divided as before.

    Example: knnlm tune store --embedded --exact
    """
    ks, grid = _whole_numbers(k), numbers(taus, "--taus")
    for tau in grid or ():
        check_temperature(tau)
    named = text.optional()  # a mistake there is told before model libraries are imported
    knnlm = model.open(store)
    from knnlm.api import allowed_overlap
    from knnlm.report.evaluation import overlap_lines, tuning_lines

    tuned = knnlm.tune(named, k=ks, taus=grid, allow_overlap=text.allow_overlap).settings
    fields = tuned.as_json()
    overlap = None
    if text.allow_overlap:
        overlap = allowed_overlap(knnlm.store.entries, named, "valid", knnlm.store.model)
    fields = {**(fields.pop("retrieval") or {}), **fields, "overlap": overlap}
    following = f"knnlm eval {shlex.quote(str(store))}{text.flag_for('test', knnlm.store.entries)}"
    lines = [*tuning_lines(tuned), *overlap_lines(overlap)]
    show(json, fields, [*lines, f"next: {following}{model.flags()}"])


def _whole_numbers(given: str | None) -> list[int] | None:
    if given is None:
        return None
    if not all(part.strip().lstrip("-").isdecimal() for part in given.split(",")):
        raise UsageError(f"--k '{given}' is not a list of whole numbers: write them like 64,1024")
    ks = [int(part) for part in given.split(",")]
    for each in ks:
        check_k(each)
    return ks
