"""Everything that was measured, as CSV: one file for each experiment, one for all findings, one for
the main effects in every LM, one for the shares that components have of the neighbors' gain.

A line is a condition, or one of the several parts of its measurement (`part`); columns are the
fields of the measurement, with changes of perplexity beside perplexities. What was learned from
several starts has one more line behind the first, with the mean of every number. Sums over
documents stay in the records.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knnlm.typed_json import to_json
from knnlm_paper.claims import Finding, Findings
from knnlm_paper.claims.beyond import tried
from knnlm_paper.claims.claim import PLAIN_AND_CALIBRATED
from knnlm_paper.claims.shares import Effect, share_of_calibration, share_of_gain
from knnlm_paper.conditions import KNN, Learned, PaperCondition
from knnlm_paper.experiments import all_experiments
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.report.derived import Row, mean_measurement, overlaps, shares, spread
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.regimes import Regime
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval

_LEFT_OUT = ("documents", "helped")
_MOST_NUMBERS = 8
MEAN = "mean over seeds"
"""The part that a mean is."""


def csv_files(evidence: Evidence) -> dict[str, str]:
    """The text of every file, by name; experiments of which nothing was measured have none."""
    results = evidence.results
    files = {
        f"{experiment.name}.csv": _text(_experiment_rows(results, experiment))
        for experiment in all_experiments(results.scale)
        if any(condition in results for condition in experiment.conditions)
    }
    if regimes := list(_regime_rows(results, evidence.regimes)):
        files["regime-effects.csv"] = _text(regimes)
    return {
        **files,
        "findings.csv": _text(_finding_rows(evidence.findings)),
        "shares.csv": _text(_share_rows(results)),
    }


def _experiment_rows(results: Results, experiment: Experiment) -> list[Row]:
    return [
        row
        for condition in dict.fromkeys(experiment.conditions)
        if condition in results
        for row in _condition_rows(results, condition)
    ]


def _condition_rows(results: Results, condition: PaperCondition[Any]) -> list[Row]:
    """One line, one more for each part of a list, and one for the mean over seeds."""
    measurement: dict[str, Any] = to_json(results.measurement(condition))
    provenance = results.provenance(condition)
    first = {"condition": condition.name, "label": condition.label}
    flat, lists = _flattened(measurement)
    flat |= _changes(measurement)
    flat["seconds"], flat["command"] = provenance.seconds, provenance.command
    flat |= shares(results, [condition]) | overlaps(results, condition)
    parts = [
        {**first, "part": f"{name}.{number}", **_flattened(item)[0]}
        for name, items in lists.items()
        for number, item in enumerate(items)
    ]
    return [{**first, "part": "", **flat}, *parts, *_mean_rows(results, condition)]


def _mean_rows(results: Results, condition: PaperCondition[Any]) -> list[Row]:
    """One line behind the first of several seeds of something learned."""
    seeds = results.learning_seeds(condition)
    if len(seeds) < 2 or seeds[0] != condition:
        return []
    mean = mean_measurement(results, seeds)
    more = _changes(mean) | shares(results, seeds) | spread(results, seeds)
    first = {"condition": condition.name, "label": condition.label, "part": MEAN}
    return [{**first, **_flattened(mean)[0], **more}]


def _flattened(fields: Mapping[str, Any], prefix: str = "") -> tuple[Row, dict[str, list[Any]]]:
    """Nested fields as `outer.inner`, and apart from them lists of objects."""
    flat: Row = {}
    lists: dict[str, list[Any]] = {}
    for name, value in fields.items():
        path = f"{prefix}{name}"
        if name in _LEFT_OUT:
            continue
        if isinstance(value, Mapping):
            inner, more = _flattened(value, f"{path}.")
            flat, lists = {**flat, **inner}, {**lists, **more}
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            lists[path] = value
        elif isinstance(value, list):
            if len(value) <= _MOST_NUMBERS:
                flat[path] = " ".join(map(str, value))
        else:
            flat[path] = value
    return flat, lists


def _changes(measurement: Mapping[str, Any]) -> Row:
    """Of each point with a perplexity: its change against the LM, or the calibrated LM where that
    is what it is mixed with, per token and per word."""
    base = measurement.get("base")
    if base is None:
        return {}
    pieces = base["tokens"] / base["words"]
    calibrated = base["calibrated_ppl"] / base["ppl"]
    changes: Row = {
        "base.calibrated_change": calibrated - 1,
        "base.calibrated_change_per_word": calibrated**pieces - 1,
    }
    for name, point in measurement.items():
        if isinstance(point, Mapping) and name != "base" and point.get("ppl") is not None:
            against = base["calibrated_ppl" if name == "on_calibrated" else "ppl"]
            ratio = point["ppl"] / against
            changes[f"{name}.change"] = ratio - 1
            changes[f"{name}.change_per_word"] = ratio**pieces - 1
            changes[f"{name}.change_per_word_from_calibrated"] = (
                point["ppl"] / base["calibrated_ppl"]
            ) ** pieces - 1
    return changes


def _finding_rows(findings: Findings) -> Iterable[Row]:
    for group, members in findings.groups.items():
        for finding in members:
            claim, other = finding.claim, finding.claim.unit != "%"
            word = (finding.effect, finding.low, finding.high) if other else finding.per_word
            token = ("", "", "") if other else finding.per_token
            yield {
                "id": claim.id,
                "claim": claim.statement,
                "source": claim.source,
                "group": group,
                "verdict": finding.verdict,
                "unit": claim.unit,
                "change_per_word": word[0],
                "low": word[1],
                "high": word[2],
                "change_per_token": token[0],
                "token_low": token[1],
                "token_high": token[2],
                "effect": finding.effect,
                "effect_low": finding.low,
                "effect_high": finding.high,
                "effect_of_each_seed": " ".join(map(str, finding.seeds)),
                "effect_in_the_paper": claim.paper,
                "margin": claim.margin,
            }


def _regime_rows(results: Results, regimes: Sequence[Regime]) -> Iterable[Row]:
    """One line for each LM and stage of its training."""
    for regime in regimes:
        measured = results.measurement(KNN(exactly(paper_retrieval(results.scale, *regime.lm))))
        head = shares(results, [Learned(lm=regime.lm)])
        yield {
            "lm": regime.lm.name,
            "update": measured.lm.step,
            "train_ppl": measured.lm.train_ppl,
            "valid_ppl": measured.lm.valid_ppl,
            **_effect("neighbors", regime.neighbors),
            **_effect("neighbors_over_calibrated", regime.over_calibrated),
            **_effect("att_instead_of_ffn", regime.att),
            **_effect("index_instead_of_exact", regime.by_index),
            **{f"head.{name}": value for name, value in head.items()},
        }


def _effect(name: str, finding: Finding) -> Row:
    """As a change of perplexity per word, and as a claim's effect."""
    change = zip(("change_per_word", "low", "high"), finding.per_word, strict=True)
    columns = {f"{name}.{column}": value for column, value in change}
    effect = {"effect": finding.effect, "effect_low": finding.low, "effect_high": finding.high}
    return {**columns, **{f"{name}.{column}": value for column, value in effect.items()}}


def _share_rows(results: Results) -> Iterable[Row]:
    knn = KNN(exactly(paper_retrieval(results.scale)))
    for topic, name, component in tried(results.scale):
        for at in PLAIN_AND_CALIBRATED:
            share = share_of_gain(results, results.seeds(component), knn, at.point, at.base)
            added: Any = results.find(component) if component in results else None
            yield {
                **_share(topic, name, share, over_lm=at.base == "base"),
                "parameters": None if added is None else added.added.parameters,
                "multiplications": None if added is None else added.added.multiplications,
            }
    calibration = share_of_calibration(results, knn)
    yield _share("calibration", "Calibrating the LM", calibration, over_lm=True)


def _share(component: str, label: str, share: Effect, *, over_lm: bool) -> Row:
    return {
        "component": component,
        "label": label,
        "over": "the LM" if over_lm else "the calibrated LM",
        "share": share.value,
        "low": share.low,
        "high": share.high,
    }


def _text(rows: Iterable[Row]) -> str:
    every = list(rows)
    columns = list(dict.fromkeys(name for row in every for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(every)
    return out.getvalue()
