"""`knnlm demo`: eight conditions of a small LM and the embedded text, then a table and a page.

    DEMO/model          the base LM                 DEMO/report.html    the page
    DEMO/store          its datastore, with indexes, tuned settings and clusters
    DEMO/records, DEMO/scale.json, DEMO/work        records, what they are of, and the workspace

An interrupted demo resumes, and a finished one only shows itself again."""

from pathlib import Path
from typing import Any, NamedTuple

from knnlm.argument_types import check_types
from knnlm.components import KNN_NAME, Logs
from knnlm.defaults import COMPONENT_KIND
from knnlm.evaluation import Evaluation, choose_settings, evaluate, save_settings
from knnlm.experiments.base_lms import BaseLM
from knnlm.experiments.demo_results import Measured, demo_results
from knnlm.experiments.knn_condition import KNNCondition
from knnlm.experiments.lms import LMs
from knnlm.experiments.provenance import versions
from knnlm.experiments.records import WORK, ResultsFolder, make_claim
from knnlm.experiments.runner import run
from knnlm.experiments.scales import embedded_scale
from knnlm.experiments.searches import SearchSpec, largest_k
from knnlm.experiments.texts import open_texts
from knnlm.experiments.workspace import STORE, SearchData, Workspace
from knnlm.files import write_bytes
from knnlm.hidden_states import KEYS
from knnlm.models import LanguageModel
from knnlm.progress import log
from knnlm.report.demo import document
from knnlm.report.html import render
from knnlm.report.results import DemoResults
from knnlm.similarity import METRICS
from knnlm.training import DistillRequest, component_spec, distill

MODEL, REPORT = "model", "report.html"


class Demo(NamedTuple):
    """What the demo measured, and its page."""

    results: DemoResults
    report: Path
    conditions: list[dict[str, Any]]
    """Of each condition the fields of `knnlm eval --json`, and how it was searched."""
    clusters: dict[str, Any]
    """The same fields for clusters of the datastore, which need no search."""


def conditions(k: int) -> list[KNNCondition]:
    """att and ffn × L2 and inner product, first with exact search, then with an index of each."""
    return [
        KNNCondition(key=key, metric=metric, exact=exact, k=k)
        for exact in (True, False)
        for key in KEYS
        for metric in METRICS
    ]


@check_types
def run_demo(out: str | Path = "demo", scale: str = "demo") -> Demo:
    """Train a small LM on the embedded text, add its nearest neighbors, and show what that changes.

    Args:
        out: The folder for the model, the datastore, the records and the page; a demo that was
            interrupted there resumes.
        scale: "demo" (minutes) or "smoke" (seconds).

    Returns:
        The results, the path of the page, and the numbers of each condition and of clusters.

    Raises:
        UsageError: The scale is not known.
        KnnlmError: The folder holds other things, or a demo of another scale.

    Example:
        >>> run_demo("demo", scale="smoke").report    # doctest: +SKIP
        PosixPath('demo/report.html')
    """
    size, folder = embedded_scale(scale), Path(out)
    every, texts = conditions(size.k), open_texts("embedded", size.portions)
    lm = BaseLM("main", size.preset)
    command = f"knnlm demo{'' if scale == 'demo' else f' --scale {scale}'}"
    workspace = Workspace(
        folder / WORK,
        texts,
        LMs([lm], texts, lambda _: folder / MODEL),
        largest_k=largest_k(condition.searches for condition in every),
        entries_folder=lambda _, split: (
            folder / (STORE if split == STORE else f"{WORK}/queries/{split}")
        ),
    )
    results = ResultsFolder(folder, own_names=(WORK, MODEL, STORE, REPORT))
    with results.claimed(make_claim(scale, texts, [lm])):
        for condition in every:  # before any clock starts: seconds are those of search and tuning
            condition.retrieval(workspace)
            workspace.control(condition.search)
        run(every, workspace, results, scale=scale, command=lambda _: command)
        measured = [_read(condition, results) for condition in every]
        data, model = workspace.data(SearchSpec()), workspace.lms.model("main")
        _save_settings(data, measured)
        clusters = _clusters(data, model, workspace.control(SearchSpec()).test)
        shown = demo_results(
            size, workspace, measured, clusters, f"{command} --out {out}", str(out)
        )
        write_bytes(folder / REPORT, render(document(shown)).encode())
    fields = [_fields(condition) for condition in measured]
    return Demo(shown, folder / REPORT, fields, clusters.as_json())


def demo_as_json(shown: Demo) -> dict[str, Any]:
    """The object of `knnlm demo --json`."""
    best = min(shown.conditions, key=lambda condition: float(condition["valid_ppl"]))
    return {
        "base_ppl": best["base_ppl"],
        "rows": shown.conditions,
        "best": best,
        "distilled": shown.clusters,
        "report": str(shown.report),
        "command": shown.results.command,
        "facts": dict(shown.results.facts),
        "versions": versions(),
    }


def _read(condition: KNNCondition, results: ResultsFolder) -> Measured:
    record = results.read(condition)
    assert record is not None
    m = record.measurement
    return Measured(m.factory, m.tuned, m.evaluation, record.provenance.seconds)


def _save_settings(data: SearchData, measured: list[Measured]) -> None:
    """Keep tuned settings with the datastore, except where it has some.

    The user may have tuned it on another text since.
    """
    for condition in measured:
        wanted = {n: v for n, v in vars(condition.retrieval).items() if n != "k"}
        if choose_settings(data.store, KNN_NAME, **wanted) is None:
            save_settings(data.store, condition.tuned)


def _clusters(data: SearchData, model: LanguageModel, calibrated: Logs) -> Evaluation:
    """What clusters of the datastore do without a search; they are kept with it and made once."""
    spec = component_spec(data.store, COMPONENT_KIND, key=None, size=None, metric=None)
    clusters = distill(
        data.store, data.valid, model, DistillRequest(spec=spec, name=COMPONENT_KIND)
    )
    evaluation = evaluate(clusters.component, data.test, clusters.settings, calibrated)
    before, after = evaluation.base_ppl, evaluation.interp_ppl
    log.info(f"{COMPONENT_KIND}, without a search: {before:.1f} → {after:.1f}")
    return evaluation


def _fields(condition: Measured) -> dict[str, Any]:
    return {
        **condition.retrieval.as_json(),
        **condition.evaluation.as_json(),
        "factory": condition.factory,
        "seconds": condition.seconds,
        "valid_ppl": condition.tuned.interp_ppl,
    }
