"""Records of format 1 → format 2: no value is lost or changed, and one that would be is refused."""

import copy
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from knnlm.errors import KnnlmError
from knnlm.experiments.base_lms import Checkpoint
from knnlm.files import write_json
from knnlm_paper.conditions import (
    KNN,
    Combined,
    Ensemble,
    FullDatastore,
    Learned,
    NeighborCounts,
    PlaceInText,
    Reachability,
    TemperatureCurve,
    TokenList,
    WordTypes,
)
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, exactly

SCRIPT = Path(__file__).parents[2] / "scripts" / "migrate_records.py"
Json = dict[str, Any]
_numbers = iter(range(1, 10**6))


def x() -> float:
    """A number that no other field has."""
    return next(_numbers) + 0.125


def arm(**changes: Any) -> Json:
    """A retrieval as format 1 has it."""
    usual = {"lm": "main", "step": None, "state": "att", "metric": "l2", "mask": "exact"}
    more = {"score": "real", "k": 64, "factory": None, "nprobe": 32, "fraction": 1.0, "draw": 0}
    return {**usual, **more, "zeros": 0.0, "width": None, **changes}


def learned(**changes: Any) -> Json:
    usual = {"of": "main", "step": None, "state": "att", "kind": "embeddings", "size": 1}
    more = {"metric": "ip", "sizing": "equal", "own_embedding": True, "fitted": True, "lam": None}
    return {**usual, **more, "soft": 0.0, "seed": 0, **changes}


def lm() -> Json:
    names = ("parameters", "width", "train_tokens", "steps", "step")
    ppls = {"train_ppl": x(), "valid_ppl": x()}
    return {**{name: next(_numbers) for name in names}, **ppls}


def base() -> Json:
    counts = {name: next(_numbers) for name in ("tokens", "words", "valid_tokens")}
    names = ("valid_ppl", "ppl", "word_ppl", "calibrated_valid_ppl", "calibrated_ppl")
    return {
        **counts,
        **{name: x() for name in (*names, "calibrated_temperature", "calibrated_share")},
    }


def mixed() -> Json:
    return {name: x() for name in ("temperature", "lambda", "valid_ppl", "ppl")}


def tau() -> Json:
    return {**mixed(), "units": x()}


def votes() -> Json:
    names = ("word_ppl", "oracle", "valid_oracle", "helping", "lambda_of_test")
    numbers = {name: x() for name in (*names, "ppl_of_test_lambda")}
    return {**tau(), **numbers, "component_ppl": None, "helped": f"{next(_numbers):x}"}


def documents(*points: str) -> Json:
    every = ("base", "calibrated", *points)
    return {"tokens": [7, 9], **{point: [-x(), -x()] for point in every}}


def weights() -> Json:
    return {"shares": [x(), x()], "valid_ppl": x(), "ppl": x()}


def against() -> Json:
    third = {"tokens": [x(), x()], "sum": [x(), x()]}
    ranges = [{"place": x(), "tokens": next(_numbers), "mean": x()}]
    thirds = {"first": third, "last": {"tokens": [x(), x()], "sum": [x(), x()]}}
    numbers = {"r": x(), "low": x(), "high": x()}
    return {"tokens": next(_numbers), **numbers, "ranges": ranges, "thirds": thirds}


def learned_results(fit: Json) -> Json:
    cost = {"parameters": next(_numbers), "multiplications": next(_numbers), "widths": x()}
    alone = {"alone_valid_ppl": x(), "alone_ppl": None, "oracle": x(), "helping": x()}
    return {
        "lm": lm(),
        "base": base(),
        "learned": {**cost, **fit},
        "as_learned": {**mixed(), **alone},
        "tuned": {
            **mixed(),
            "alone_valid_ppl": None,
            "alone_ppl": x(),
            "oracle": 1.5,
            "helping": 0.5,
        },
        "on_calibrated": mixed(),
        "documents": documents("as_learned", "tuned", "tuned_alone", "on_calibrated"),
    }


def voted(*points: str) -> Json:
    sums = [name for point in points for name in (point, f"{point}_lambda_of_test")]
    return {
        "lm": lm(),
        "base": base(),
        "coverage": x(),
        "documents": documents(*sums, "on_calibrated"),
        **{point: votes() for point in points},
        "on_calibrated": tau(),
    }


def full_point() -> Json:
    more = {"oracle": x(), "helping": x(), "coverage": x()}
    return {**mixed(), "alone_ppl": None, **more}


FIT = {"rate": 0.01, "steps": 9, "best_step": 6, "rates": {"0.01": 2.5, "1": None}, "alike": None}
OTHER = {"name": "seed-1", "kept": None, **{"oracle": 3.5, "helping": 0.25}}
SINGLE = dict.fromkeys(("ppl", "calibrated_ppl", "calibrated_temperature"), 4.5)
INDEX = arm(mask="faiss", score="real")
EXACT = exactly(Retrieval(k=64))
WORD = {"token": " é", "occurrences": 4, "length": 1, "forward": 0.5, "backward": 1.5}
SAMPLE: tuple[tuple[str, Json, Json, Any], ...] = (
    (
        "evaluate",
        {"arm": arm(mask="faiss", score="faiss", zeros=0.26)},
        {"rows": 12, "recall": None, **voted("tau_1", "shared", "tuned")},
        KNN(Retrieval(k=64, zeros=0.26)),
    ),
    (
        "temperatures",
        {"arm": INDEX},
        {"base": base(), "points": [tau(), tau()]},
        TemperatureCurve(Retrieval(k=64, score="exact")),
    ),
    (
        "counts",
        {"arm": arm(), "ks": [1, 64]},
        {"base": base(), "points": [{"k": 1, "coverage": x(), "tau_1": tau(), "tuned": tau()}]},
        NeighborCounts(EXACT, (1, 64)),
    ),
    (
        "location",
        {"arm": arm()},
        {"lm": lm(), **{w: {"loss": against(), "gain": against()} for w in ("window", "document")}},
        PlaceInText(EXACT),
    ),
    (
        "words",
        {"exact": arm(), "approximate": INDEX, "least": 3},
        {"words": [{**WORD, "exact": x(), "approximate": x()}]},
        WordTypes(EXACT, Retrieval(k=64, score="exact"), 3),
    ),
    (
        "learned",
        learned(of="wide", step=20, kind="network", state="both", size=8, lam=0.25),
        learned_results(FIT),
        Learned(lm=Checkpoint("wide", 20), component="mlp", state="both", size=8, lam=0.25),
    ),
    (
        "learned",
        learned(kind="clusters", metric="l2", size=0.5, fitted=False),
        learned_results({}),
        Learned(component="clusters", metric="l2", size=0.5, fitted=False),
    ),
    (
        "combined",
        {"parts": [learned(kind="softmaxes")], "neighbours": [arm()]},
        {
            "lm": lm(),
            "base": base(),
            "learned": {"parameters": 5, "multiplications": 6, "widths": x()},
            "tuned": weights(),
            "on_calibrated": weights(),
            "documents": documents("tuned", "on_calibrated"),
        },
        Combined((Learned(component="mixture-of-softmaxes"),), (EXACT,)),
    ),
    (
        "listed",
        {"of": "seed-1", "retrieved": None, "k": 8, "score": "logits", "duplicates": True},
        voted("tau_1", "tuned"),
        TokenList(lm=Checkpoint("seed-1"), k=8),
    ),
    (
        "reach",
        {"of": "main"},
        {"lm": {"parameters": 9}, "words": 5, "unreachable": 1, "programmes": 2, "which": ["a"]},
        Reachability(),
    ),
    (
        "ensemble",
        {"others": [["seed-1", None], ["memorised", 40]], "neighbours": []},
        {
            "lm": lm(),
            "base": base(),
            "others": [{**OTHER, **lm(), **SINGLE, "calibrated_share": x()}],
            "tuned": weights(),
            "on_calibrated": {**weights(), "unigrams": x(), "factor": x()},
            "documents": documents("tuned", "on_calibrated"),
        },
        Ensemble((Checkpoint("seed-1"), Checkpoint("memorised", 40))),
    ),
    (
        "unmasked",
        {"of": "main", "state": "ffn", "metric": "l2"},
        {
            "lm": lm(),
            "base": base(),
            "rows": 12,
            "tuned": full_point(),
            "on_calibrated": full_point(),
            "documents": documents("tuned", "on_calibrated"),
        },
        FullDatastore(state="ffn"),
    ),
)
OLDEST = {
    "model": "abc",
    "train_seconds": 60,
    "command": "knnlm reproduce it",
    "commit": "0123",
    "seed": 0,
    "versions": {"python": "3.11"},
    "machine": "Linux",
    "seconds": 1.5,
}
LATER = {
    **OLDEST,
    "other_models": [["seed-1", None, "def"], ["memorised", 40, "ghi"]],
    "others_train_seconds": {"seed-1": 5, "memorised": 6},
    "instructions": "AVX2",
    "threads": 2,
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("migrate_records", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder of format 1 with every kind of record."""
    (tmp_path / "rows").mkdir()
    for number, (kind, what, results, _) in enumerate(SAMPLE):
        made = LATER if kind == "ensemble" else OLDEST
        fields = {"kind": kind, "scale": "smoke", "what": what, "results": results}
        if kind in ("learned", "combined"):
            fields["made_with"] = "abcdef"
        record = {"format": 1, "row": str(number), **fields, "provenance": made}
        write_json(tmp_path / "rows" / f"{number}.json", record)
    claim = {"scale": "smoke", "text": [{"kind": "files"}, {"rows": 400}], "lms": {}, "others": {}}
    write_json(tmp_path / "scale.json", claim)
    return tmp_path


def leaves(value: Any) -> Iterator[str]:
    """Every value of a JSON tree."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif value is not None:
        yield repr(value)


def test_every_kind_is_migrated_with_all_of_its_values(folder: Path, script: ModuleType) -> None:
    checked = script.migrate(folder)
    assert checked.records == len(SAMPLE)
    results = Results.open(folder)
    assert set(results) == {condition for *_, condition in SAMPLE}
    numbers = 0
    for _, _, old, condition in SAMPLE:
        file = folder / "records" / f"{condition.name}.json"
        new = json.loads(file.read_text())["measurement"]
        assert sorted(leaves(new)) == sorted(leaves(old))
        numbers += sum(not value.startswith("'") for value in leaves(old))
    assert checked.numbers > numbers  # those of settings and provenance too
    assert json.loads((folder / "scale.json").read_text())["text"][-1] == {"queries": 400}


def test_points_have_their_new_names(folder: Path, script: ModuleType) -> None:
    script.migrate(folder)
    results = Results.open(folder)
    _, _, old, condition = SAMPLE[0]
    for new_name, old_name in (("one_tau", "shared"), ("own_tau", "tuned"), ("tau_1", "tau_1")):
        assert results.ppl(condition, new_name) == old[old_name]["ppl"]
        assert results.log_likelihoods(condition, new_name) == tuple(old["documents"][old_name])
    _, _, old, condition = SAMPLE[5]
    alone = results.log_likelihoods(condition, "own_tau_alone")
    assert alone == tuple(old["documents"]["tuned_alone"])


def test_provenance_is_carried_over(folder: Path, script: ModuleType) -> None:
    script.migrate(folder)
    results = Results.open(folder)
    oldest, later = (results.provenance(SAMPLE[i][3]) for i in (0, 10))
    assert (oldest.command, oldest.commit, oldest.versions) == (
        "knnlm reproduce it",
        "0123",
        {"python": "3.11"},
    )
    assert (oldest.instructions, oldest.threads, oldest.other_models) == (None, None, ())
    assert [tuple(lm) for lm in later.other_models] == [
        ("seed-1", None, "def"),
        ("memorised", 40, "ghi"),
    ]
    assert results.record(SAMPLE[5][3]).made_with == "abcdef"


def test_a_value_that_would_change_is_refused(folder: Path, script: ModuleType) -> None:
    file = folder / "rows" / "0.json"
    old = {k: v for k, v in json.loads(file.read_text()).items() if k != "checksum"}
    new = script.to_json(script.migrated(old).measurement)
    changed = copy.deepcopy(old)
    changed["results"]["tuned"]["ppl"] += 1e-9
    with pytest.raises(KnnlmError, match="values differ"):
        script._same_values(file, changed["results"], new, texts=True)
    changed["results"]["tuned"]["ppl"] = old["results"]["tuned"]["ppl"]
    changed["results"]["more"] = 1.5
    with pytest.raises(ValueError, match="more is not known"):
        script.migrated(changed)


def test_a_folder_without_old_records_is_refused(tmp_path: Path, script: ModuleType) -> None:
    assert script.main([str(tmp_path)]) == 1
    assert script.main([]) == 2
