"""`knnlm demo`: embedded text → tokenizer → LM → store → indexes → tune → eval → distill → a table
and a page.

It only puts the operations of api/ in a row. Every step leaves its result in the folder, so an
interrupted demo goes on where it stopped and a finished one only shows itself again."""

import importlib.metadata
import math
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from knnlm import api
from knnlm.api.explain import passage
from knnlm.datastore.entries import Entries
from knnlm.errors import unknown
from knnlm.evaluation.settings import save_settings
from knnlm.evaluation.tuning import (
    Evaluation,
    Scored,
    TunedSettings,
    evaluate,
    evaluate_component,
    from_fields,
    lambda_curve,
    score,
    tau_sweep,
    tune,
    votes_of,
)
from knnlm.files import finite, read_json, write_bytes, write_json, write_lock
from knnlm.hidden_states import KEYS
from knnlm.models.load import LanguageModel, load_model
from knnlm.models.presets import DEMO, SMOKE, Preset
from knnlm.progress import log
from knnlm.report import html
from knnlm.report.demo import document
from knnlm.report.results import ConditionResult, Curve, DemoResults
from knnlm.resolve import the_substitute
from knnlm.search import defaults
from knnlm.search.index import open_index
from knnlm.search.retrieval import EXACT, Retrieval
from knnlm.similarity import METRICS
from knnlm.text.documents import Source
from knnlm.text.portions import Excerpts
from knnlm.text.python_docs import PythonDocsSplit
from knnlm.training.defaults import KIND
from knnlm.training.distillation import distill
from knnlm.training.language_model import TrainingResult
from knnlm.version import __version__


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large a demo: which LM, and how much of each document is stored, tuned on and reported
    on."""

    preset: Preset
    train_characters: int
    valid_characters: int
    test_characters: int
    k: int


SCALES = {
    "demo": Scale(
        preset=DEMO,
        train_characters=10_000,
        valid_characters=700,
        test_characters=1000,
        k=defaults.K,
    ),
    "smoke": Scale(
        preset=SMOKE, train_characters=200, valid_characters=100, test_characters=100, k=64
    ),
}


class Demo(NamedTuple):
    """What the demo found (each row with the fields of `knnlm eval --json`) and where its page is;
    `distilled` is what clusters of the store do without a search."""

    page: DemoResults
    report: Path
    rows: list[dict[str, Any]]
    distilled: dict[str, Any]


class _Texts(NamedTuple):
    train: Source
    valid: Source
    test: Source


def demo(
    out: str | Path = "demo",
    scale: str = "demo",
) -> Demo:
    """Run the whole pipeline on the embedded text into the folder `out`."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    size, folder = SCALES[scale], Path(out)
    texts = _Texts(
        Excerpts(PythonDocsSplit("train"), size.train_characters),
        Excerpts(PythonDocsSplit("valid"), size.valid_characters),
        Excerpts(PythonDocsSplit("test"), size.test_characters),
    )
    with write_lock(folder):
        trained = api.train(folder / "model", texts.train, valid=texts.valid, preset=size.preset)
        lm = load_model(folder / "model")
        store = api.build(lm, folder / "store", texts.train)
        valid, test = (api.queries(store, text, lm) for text in (texts.valid, texts.test))
        settings = _settings(store, size.k)
        measured = [_measure(store, valid, test, what, folder / "rows") for what in settings]
        clusters = _without_search(store, valid, test, lm)
        page = _page(scale, size, trained, lm, store, valid, test, measured, clusters, str(out))
        report = folder / "report.html"
        write_bytes(report, html.render(document(page)).encode())
    return Demo(
        page, report, [_fields(m) for m in measured], _named_lambda(finite(clusters._asdict()))
    )


class _Measured(NamedTuple):
    mask: str  # "exact" or the index's factory string, which says more than its name
    tuned: TunedSettings
    evaluation: Evaluation
    seconds: float


def _settings(
    store: Entries,
    k: int,
) -> list[Retrieval]:
    """att/ffn × l2/ip, first searched exactly, then with an index of its own."""
    pairs = [(key, metric) for key in KEYS for metric in METRICS]
    found = [Retrieval(key=key, metric=metric, k=k) for key, metric in pairs]
    for key, metric in pairs:
        # no floor: a poor index is part of what the table shows, beside its recall
        index = api.index(store, key=key, metric=metric, recall_floor=0.0)
        found.append(Retrieval(key=key, metric=metric, index=index.name, score="index", k=k))
    return found


def _measure(
    store: Entries,
    valid: Entries,
    test: Entries,
    what: Retrieval,
    folder: Path,
) -> _Measured:
    """Tune and evaluate one setting; a row on disk that belongs to this store and text is not
    measured again."""
    mask = EXACT if what.index is None else str(open_index(store, what.index).manifest["factory"])
    folder.mkdir(exist_ok=True)
    file = folder / f"{what.key}-{what.metric}-{what.search_name}.json"
    about = {
        "store": store.fingerprint,
        "valid": valid.fingerprint,
        "test": test.fingerprint,
        "k": what.k,
    }
    if file.is_file():
        row = read_json(file)
        if row["about"] == about:
            tuned = TunedSettings(**{**row["tuned"], "retrieval": what})
            return _Measured(mask, tuned, from_fields(row["evaluation"]), row["seconds"])
    began = time.monotonic()
    tuned = tune(store, valid, what)
    save_settings(store, tuned)
    evaluation = evaluate(store, test, tuned)
    seconds = round(time.monotonic() - began, 1)
    log.info(
        f"{what.key}-{what.metric} {what.search_name}: {evaluation.base_ppl:.1f} → "
        f"{evaluation.interp_ppl:.1f}"
    )
    kept = {name: value for name, value in tuned._asdict().items() if name != "retrieval"}
    write_json(
        file,
        {
            "about": about,
            "tuned": kept,
            "evaluation": finite(evaluation._asdict()),
            "seconds": seconds,
        },
    )
    return _Measured(mask, tuned, evaluation, seconds)


def _without_search(
    store: Entries,
    valid: Entries,
    test: Entries,
    lm: LanguageModel,
) -> Evaluation:
    """What is usually made of a store in the place of the search; if it is there already, it is not
    made again."""
    found = distill(store, valid, lm, the_substitute(store), name=KIND, how=None)
    evaluation = evaluate_component(test, found.component, found.lam)
    log.info(f"{KIND}, without a search: {evaluation.base_ppl:.1f} → {evaluation.interp_ppl:.1f}")
    return evaluation


def _page(
    scale: str,
    size: Scale,
    trained: TrainingResult,
    lm: LanguageModel,
    store: Entries,
    valid: Entries,
    test: Entries,
    measured: list[_Measured],
    clusters: Evaluation,
    out: str,
) -> DemoResults:
    best = min(measured, key=lambda m: m.tuned.interp_ppl)
    curves = [_curves(store, valid, m.tuned) for m in measured]
    text = passage(store, test, best.tuned, lm.tokenizer)
    return DemoResults(
        title="knnlm demo: a language model with nearest neighbors, on Python's own documentation",
        conditions=tuple(_row(m) for m in measured),
        tokens=test.count,
        words=test.words,
        entries=store.count,
        temperature_curves=tuple(tau for tau, _ in curves),
        lambda_curves=tuple(lam for _, lam in curves),
        passage=text,
        facts=_facts(scale, size, trained, store, valid, test, measured, clusters),
        commands=_next_commands(out),
        command="knnlm demo" + ("" if scale == "demo" else f" --scale {scale}") + f" --out {out}",
    )


def _curves(store: Entries, valid: Entries, tuned: TunedSettings) -> tuple[Curve, Curve]:
    """Validation perplexity against τ (λ refitted) and against λ (at the tuned τ)."""
    what = tuned.retrieval
    label = f"{what.key} {what.metric} {'exact' if what.exact else 'approximate'}"
    scored: Scored = score(store, valid, tuned)
    points = tau_sweep(scored.lm, votes_of(store, valid, what))
    taus = Curve(
        label,
        tuple(p.units for p in points),
        tuple(p.ppl for p in points),
        (tuned.temperature_units, tuned.interp_ppl),
    )
    lams = lambda_curve(scored)
    return taus, Curve(
        label, tuple(x for x, _ in lams), tuple(y for _, y in lams), (tuned.lam, tuned.interp_ppl)
    )


def _row(m: _Measured) -> ConditionResult:
    what, e = m.tuned.retrieval, m.evaluation
    same = {
        name: getattr(e, name) for name in ConditionResult._fields if name in Evaluation._fields
    }
    same["ratio_ci95"] = e.ratio_ci95 or (math.nan, math.nan)
    return ConditionResult(
        key=what.key,
        metric=what.metric,
        search=m.mask,
        score=what.score,
        valid_ppl=m.tuned.interp_ppl,
        seconds=m.seconds,
        **same,
    )


def _facts(
    scale: str,
    size: Scale,
    trained: TrainingResult,
    store: Entries,
    valid: Entries,
    test: Entries,
    measured: list[_Measured],
    clusters: Evaluation,
) -> tuple[tuple[str, str], ...]:
    p = size.preset
    return (
        ("Text", "docstrings and language reference of this Python, split by module"),
        (
            "Base LM",
            f"OPT class, {p.layers} layers, width {p.width}, {trained.parameters:,} parameters",
        ),
        (
            "Training",
            f"{trained.steps:,} updates on {trained.train_tokens:,} tokens, "
            f"{trained.tokens_per_second:,.0f} tokens/s, validation perplexity "
            f"{trained.valid_ppl:.1f}",
        ),
        (
            "Store",
            f"{store.count:,} rows, window {store.meta['window']}, stride {store.meta['stride']}",
        ),
        ("Validation text", f"{valid.count:,} tokens (λ and τ are tuned here)"),
        ("Test text", f"{test.count:,} tokens, {test.words:,} words (everything is reported here)"),
        (
            "Without a search",
            f"clusters of {store.keys[0]} instead of its rows: {clusters.base_ppl:.1f} → "
            f"{clusters.interp_ppl:.1f} at λ = {clusters.lam:.2f} (knnlm distill)",
        ),
        ("Interval", f"paired bootstrap, resampling each {measured[0].evaluation.ratio_ci95_unit}"),
        ("Scale", scale),
        ("knnlm", __version__),
    )


def _next_commands(out: str) -> tuple[str, ...]:
    return (
        f"knnlm info {out}/store",
        f"knnlm generate {out}/store 'The with statement is used' --max-new-tokens 20 --explain",
        f"knnlm eval {out}/store --embedded --component {KIND}   # on all of the test text, so "
        "with other numbers",
        f"knnlm build {out}/model --text YOUR_FOLDER --out mystore",
        "knnlm tune mystore --text SOME_OF_YOUR_TEXT",
        "knnlm eval mystore --text OTHER_TEXT_OF_YOURS",
    )


def _fields(m: _Measured) -> dict[str, Any]:
    fields = {
        **m.tuned.retrieval.as_json(),
        **finite(m.evaluation._asdict()),
        "factory": m.mask,
        "seconds": m.seconds,
        "valid_ppl": m.tuned.interp_ppl,
    }
    return _named_lambda(fields)


def _named_lambda(fields: dict[str, Any]) -> dict[str, Any]:
    """λ by the name that it has in JSON."""
    return {"lambda" if name == "lam" else name: value for name, value in fields.items()}


def as_json(found: Demo) -> dict[str, Any]:
    """The object of `knnlm demo --json`."""
    best = min(found.rows, key=lambda row: float(row["valid_ppl"]))
    return {
        "base_ppl": best["base_ppl"],
        "rows": found.rows,
        "best": best,
        "distilled": found.distilled,
        "report": str(found.report),
        "command": found.page.command,
        "facts": dict(found.page.facts),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    """What the numbers were made with."""
    packages = ("knnlm", "torch", "transformers", "faiss-cpu", "numpy")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }
