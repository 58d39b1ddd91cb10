"""Results answer queries: on records with known answers, from a folder, and without torch."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knnlm.errors import KnnlmError
from knnlm.experiments.base_lms import Checkpoint
from knnlm.experiments.records import CLAIM, RECORDS, write_record
from knnlm.files import write_json
from knnlm_paper.conditions import KNN, Combined, Learned, PaperCondition, Reachability, TokenList
from knnlm_paper.conditions.learned import LearnedMeasurement
from knnlm_paper.experiments import all_experiments, unique_conditions
from knnlm_paper.experiments.substitutes import both
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SCALES, SMOKE_SCALE
from tests.paper.constructed import knn_measurement, record_of, results_of
from tests.paper.examples import EXAMPLES

HEAVY = ("torch", "faiss", "transformers", "scipy", "datasets", "matplotlib")
DOCS = Path(__file__).parents[2] / "docs" / "results"
NEAR = KNN(exactly(paper_retrieval(SMOKE_SCALE)))
ALL = {example.condition.kind: example.measurement for example in EXAMPLES}


def learned_at(ppl: float) -> LearnedMeasurement:
    """A learned component whose mixture has this perplexity at its own τ."""
    measurement: LearnedMeasurement = ALL[Learned.kind]
    return replace(measurement, own_tau=replace(measurement.own_tau, ppl=ppl))


def knn_at(ppl: float, **sums: Any) -> Any:
    """Neighbors whose mixture has this perplexity at their own τ."""
    measurement = knn_measurement(**sums)
    return replace(measurement, own_tau=replace(measurement.own_tau, ppl=ppl))


def test_perplexities_are_those_of_the_points() -> None:
    results = results_of({NEAR: knn_at(5.0)})
    assert results.ppl(NEAR, "own_tau") == 5.0
    assert results.ppl(NEAR, "on_calibrated") == 8.0
    assert (results.ppl(NEAR, "base"), results.ppl(NEAR, "calibrated")) == (10.0, 9.0)
    assert (results.tokens(NEAR), results.words(NEAR)) == (200, 100)
    assert results.word_ppl(NEAR, "own_tau") == pytest.approx(25.0)  # two tokens a word


def test_an_infinite_perplexity_stays_one() -> None:
    assert results_of({NEAR: knn_at(math.inf)}).ppl(NEAR, "own_tau") == math.inf


def test_an_unknown_point_is_an_error() -> None:
    results = results_of({NEAR: knn_at(5.0), Reachability(): ALL[Reachability.kind]})
    with pytest.raises(ValueError, match="kind knn has no point as_learned"):
        results.ppl(NEAR, "as_learned")
    with pytest.raises(ValueError, match="kind reachability has no point base"):
        results.ppl(Reachability(), "base")


def test_what_was_not_measured_is_told() -> None:
    results = results_of({NEAR: knn_at(5.0)})
    assert NEAR in results
    assert Learned() not in results
    assert results.find(Learned()) is None
    with pytest.raises(KnnlmError, match="main_att_learned was not measured at scale smoke: run"):
        results.measurement(Learned())


def test_log_likelihoods_are_those_of_the_documents() -> None:
    results = results_of({NEAR: knn_at(5.0, base=[-3.0, -4.0], own_tau=[-2.0, -3.5])})
    assert results.document_tokens(NEAR) == (100, 100)
    assert results.log_likelihoods(NEAR, "own_tau") == (-2.0, -3.5)
    assert results.log_likelihoods(NEAR, "one_tau") is None  # it holds a token impossible
    assert results.log_likelihoods(Learned(), "own_tau") is None
    unlike = results_of({Reachability(): ALL[Reachability.kind]})
    assert unlike.log_likelihoods(Reachability(), "base") is None


def test_seeds_of_the_lm_are_found_and_averaged() -> None:
    second = NEAR.with_lm("seed-1")
    results = results_of({NEAR: knn_at(5.0), second: knn_at(7.0)})
    assert results.seeds(NEAR) == results.lm_seeds(NEAR) == [NEAR, second]
    assert results.mean_ppl(NEAR, "own_tau") == 6.0
    assert results.mean_ppl(NEAR, "base") == 10.0
    assert results.mean_word_ppl(NEAR, "own_tau") == pytest.approx((25 + 49) / 2)
    assert results.lm_seeds(second) == [second]  # an LM of its own has no further seeds
    assert results_of({second: knn_at(7.0)}).seeds(NEAR) == [second]


def test_seeds_of_what_is_learned_are_found_and_averaged() -> None:
    pieces: dict[PaperCondition[Any], Any] = {
        Learned(seed=seed): learned_at(ppl) for seed, ppl in ((0, 4.0), (1, 6.0), (3, 9.0))
    }
    results = results_of({**pieces, both(): ALL[Combined.kind], both(1): ALL[Combined.kind]})
    assert results.seeds(Learned()) == [Learned(), Learned(seed=1)]  # the third is missing
    assert results.mean_ppl(Learned(), "own_tau") == 5.0
    assert results.seeds(both()) == [both(), both(1)]
    assert results.learning_seeds(NEAR) == []
    assert math.isnan(results.mean_ppl(NEAR, "own_tau"))


def test_what_is_not_learned_is_its_only_seed() -> None:
    assert results_of({NEAR: knn_at(5.0)}).learning_seeds(NEAR) == [NEAR]


def test_conditions_of_a_kind_and_parts_of_results() -> None:
    results = results_of({e.condition: e.measurement for e in EXAMPLES})
    assert len(results) == len(EXAMPLES)
    assert results.of_kind(TokenList) == [TokenList(k=8)]
    some = results.only([TokenList(k=8), TokenList(k=16)])
    assert list(some) == [TokenList(k=8)]
    assert some.scale == results.scale
    assert results.provenance(TokenList(k=8)).command == "knnlm reproduce it"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with every kind of record."""
    (tmp_path / RECORDS).mkdir()
    for example in EXAMPLES:
        record = record_of(example.condition, example.measurement)
        write_record(tmp_path / RECORDS / f"{example.name}.json", record)
    claim = {"scale": "smoke", "text": [], "lms": {}, "others": {"mine": "some/mine"}}
    write_json(tmp_path / CLAIM, claim)
    return tmp_path


def test_a_folder_is_opened_with_its_scale_and_lms(folder: Path) -> None:
    results = Results.open(folder)
    assert results.records == Results.open(folder, SMOKE_SCALE).records
    assert set(results) == {example.condition for example in EXAMPLES}
    assert results.scale.name == "smoke"
    assert results.scale.other("some-mine") is not None


def test_a_folder_of_another_scale_is_refused(folder: Path) -> None:
    with pytest.raises(KnnlmError, match="holds results of scale smoke: add --scale smoke"):
        Results.open(folder, SCALES["demo"])


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KnnlmError, match="holds no results: run 'knnlm reproduce all"):
        Results.open(tmp_path, SMOKE_SCALE)


def rewrite(folder: Path, name: str, **changes: Any) -> Path:
    """Change fields of a record, with a checksum that is right."""
    file = folder / RECORDS / f"{name}.json"
    fields = json.loads(file.read_text())
    del fields["checksum"]
    write_json(file, {**fields, **changes})
    return file


def test_a_record_of_a_kind_that_is_not_known_is_refused(folder: Path) -> None:
    rewrite(folder, "main_reachability", kind="reach")
    with pytest.raises(KnnlmError, match="kind reach is not known"):
        Results.open(folder)


def test_a_record_of_another_scale_is_refused(folder: Path) -> None:
    rewrite(folder, "main_reachability", scale="laptop")
    with pytest.raises(
        KnnlmError, match="main_reachability.json cannot be read .*scale is laptop, not smoke"
    ):
        Results.open(folder)


def test_a_record_of_another_condition_is_refused(folder: Path) -> None:
    rewrite(folder, "main_reachability", condition="wide_reachability")
    with pytest.raises(KnnlmError, match="wide_reachability"):
        Results.open(folder)


def test_a_record_with_the_settings_of_another_condition_is_refused(folder: Path) -> None:
    rewrite(folder, "main_token-list_likeliest_k-8", settings=TokenList(k=16).settings)
    with pytest.raises(KnnlmError, match="main_token-list_likeliest_k-16"):
        Results.open(folder)


def test_a_record_with_unknown_settings_is_refused(folder: Path) -> None:
    settings = {**TokenList(k=8).settings, "temperature": 1}
    rewrite(folder, "main_token-list_likeliest_k-8", settings=settings)
    with pytest.raises(KnnlmError, match="temperature is not known"):
        Results.open(folder)


def test_a_renamed_record_is_refused(folder: Path) -> None:
    file = folder / RECORDS / "main_reachability.json"
    file.rename(file.with_name("other_reachability.json"))
    with pytest.raises(KnnlmError, match="other_reachability.json"):
        Results.open(folder)


def test_lists_of_documents_must_be_of_one_length(folder: Path) -> None:
    file = folder / RECORDS / "main_att_learned.json"
    measurement = json.loads(file.read_text())["measurement"]
    measurement["documents"]["log_likelihood"]["own_tau"].append(-1.0)
    rewrite(folder, "main_att_learned", measurement=measurement)
    with pytest.raises(KnnlmError, match="log_likelihood.own_tau has 3 documents instead of 2"):
        Results.open(folder)


def test_sums_of_places_must_be_of_one_length(folder: Path) -> None:
    name = "main_att_l2_exact_place-in-text"
    measurement = json.loads((folder / RECORDS / f"{name}.json").read_text())["measurement"]
    measurement["window"]["loss"]["thirds"]["first"]["sum"].append(1.0)
    rewrite(folder, name, measurement=measurement)
    with pytest.raises(KnnlmError, match="sum has 3 documents instead of 2"):
        Results.open(folder)


@pytest.mark.parametrize("claim", sorted(DOCS.glob(f"*/{CLAIM}")), ids=lambda f: f.parent.name)
def test_committed_records_are_those_of_the_experiments(claim: Path) -> None:
    results = Results.open(claim.parent)
    conditions = unique_conditions(all_experiments(results.scale))
    assert set(results) == set(conditions)
    assert set(results.records) == {condition.name for condition in conditions}
    learned = {results.record(c).made_with for c in conditions if c.has_seed}
    assert {results.record(c).made_with for c in conditions if not c.has_seed} <= {None, *learned}
    from knnlm_paper.conditions.learned.learner import learning_fingerprint

    assert learned == {learning_fingerprint(results.scale)}  # nothing would be measured again


def test_reading_results_needs_no_model_libraries() -> None:
    code = f"""
import json, sys
from pathlib import Path
import knnlm_paper.results as module
from knnlm_paper.experiments import all_experiments, unique_conditions
from knnlm_paper.plan import needed_searches
from knnlm_paper.scales import SCALES
results = module.Results.open(Path({str(DOCS / "laptop")!r}))
ppl = [results.ppl(c, "base") for c in results if hasattr(results.measurement(c), "base")]
conditions = [c for scale in SCALES.values() for c in unique_conditions(all_experiments(scale))]
words = [(c.name, c.label, c.searches) for c in conditions]
needed_searches(unique_conditions(all_experiments(results.scale)), results.scale)
print(json.dumps([len(ppl), len(words), [m for m in {HEAVY} if m in sys.modules]]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    measured, listed, heavy = json.loads(done.stdout)
    assert measured > 300
    assert listed > 900
    assert heavy == []


def test_seeds_of_an_lm_at_an_update_are_its_own() -> None:
    early = KNN(exactly(paper_retrieval(SMOKE_SCALE, "no-dropout", 40)))
    assert early.lm == Checkpoint("no-dropout", 40)
    assert results_of({early: knn_at(5.0)}).seeds(early) == [early]
