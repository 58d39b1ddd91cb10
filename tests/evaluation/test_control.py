"""The control: the calibrated LM, fitted on validation text and reported beside the mixture."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knnlm import KNNLM, Datastore
from knnlm.datastore import Entries, build_entries
from knnlm.errors import KnnlmError, UsageError
from knnlm.evaluation import (
    TemperedLM,
    TunedSettings,
    calibrate,
    control_logprobs,
    evaluate,
    fit_control,
    fit_lambda,
    mix,
    perplexity,
    unigram_logprobs,
)
from knnlm.text.local_files import Files


@pytest.fixture(scope="module")
def store(
    tiny_model: Path, texts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Datastore:
    return Datastore.build(tiny_model, texts["train"], tmp_path_factory.mktemp("control") / "store")


@pytest.fixture(scope="module")
def valid(store: Datastore, texts: dict[str, Path]) -> Entries:
    return store.queries(texts["valid"], "valid")


def dense_calibrated(store: Datastore, queries: Entries, t: float, u: float) -> np.ndarray:
    """(1-u)·softmax(W_sm·h_sm/T) + u·unigrams in float64, from the stored states."""
    weight = store.model.model.get_output_embeddings().weight.detach().double().numpy()
    logits = queries.key("ffn").all().astype(np.float64) @ weight.T / t
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    counts = np.bincount(store.entries.targets, minlength=store.entries.vocab_size) + 1.0
    mixed = (1 - u) * p + u * counts / counts.sum()
    return np.log(mixed[np.arange(len(p)), queries.targets])


def test_at_temperature_one_and_without_unigrams_it_is_the_base_lm(
    store: Datastore, valid: Entries
) -> None:
    logs = control_logprobs(store.model.model, store.entries, valid, 1.0, 0.0)
    assert_allclose(logs, valid.lm_logprob, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("t", "u"), [(0.7, 0.0), (1.0, 0.3), (1.9, 0.05)])
def test_it_is_the_formula(store: Datastore, valid: Entries, t: float, u: float) -> None:
    logs = control_logprobs(store.model.model, store.entries, valid, t, u)
    assert_allclose(logs, dense_calibrated(store, valid, t, u), atol=2e-3)  # float16 states


def test_no_grid_finds_a_better_one(store: Datastore, valid: Entries) -> None:
    fitted = fit_control(store.model.model, store.entries, valid).calibration
    grid = [
        (t, u) for t in np.geomspace(0.3, 4, 60) for u in (*np.linspace(0, 0.98, 50), fitted.share)
    ]
    best = min(perplexity(dense_calibrated(store, valid, t, u)) for t, u in grid)
    assert fitted.valid_ppl <= best * (1 + 1e-4)


def test_without_unigrams_it_is_concave_in_the_inverse_temperature(
    store: Datastore, valid: Entries
) -> None:
    betas = np.linspace(0.2, 3, 40)
    scores = TemperedLM(store.model.model, valid.key("ffn"), valid.targets)
    means = [float(logs.mean()) for logs in scores.several(list(1 / betas))]
    assert np.all(np.diff(means, 2) <= 1e-6)


@pytest.mark.parametrize("center", [0.25, 1.0, 3.0])
def test_between_nodes_it_is_accurate_on_average(
    store: Datastore, valid: Entries, center: float
) -> None:
    scores = TemperedLM(store.model.model, valid.key("ffn"), valid.targets)
    near = scores.near(center)
    for beta in (0.45, 0.8, 1.0, 1.23, 1.65):
        exact, interpolated = scores.logprobs(center / beta), near.logprobs(center / beta)
        assert abs(float((exact - interpolated).mean())) < 1e-4


def test_a_long_text_is_sampled_evenly(
    store: Datastore, valid: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.evaluation.control.LEAST_SAMPLE", 40)
    control = fit_control(store.model.model, store.entries, valid)
    tenth = valid.count // 10
    assert 40 < tenth == len(control.rows) == len(control.base) == len(control.calibrated)
    assert control.rows[0] == 0
    assert control.rows[-1] == valid.count - 1
    assert_allclose(control.base, valid.lm_logprob[control.rows])
    t, u, ppl = control.calibration
    assert perplexity(control.calibrated) == pytest.approx(ppl)
    assert_allclose(
        control.calibrated, dense_calibrated(store, valid, t, u)[control.rows], atol=2e-3
    )


def test_tune_fits_it_and_eval_reports_it(store: Datastore, texts: dict[str, Path]) -> None:
    model = KNNLM(store, exact=True).tune(texts["valid"], k=16)
    control = model.settings.calibrated
    assert control is not None
    assert control.calibrated_ppl <= control.base_ppl * (1 + 1e-6)
    assert control.calibrated_interp_ppl <= control.calibrated_ppl * (1 + 1e-9)
    result = model.evaluate(texts["test"])
    test = store.queries(texts["test"])
    t, u = control.softmax_temperature, control.unigram_share
    logs = dense_calibrated(store, test, t, u)
    assert result.calibrated_ppl == pytest.approx(perplexity(logs), rel=1e-3)
    knn = model.component.at_temperature(control.tau).target_logprobs(test)
    assert result.calibrated_interp_ppl == pytest.approx(
        perplexity(mix(logs, knn, control.lam)), rel=1e-3
    )
    assert TunedSettings.from_json(model.settings.as_json()) == model.settings
    shown = str(result)
    assert "calibrated LM with kNN" in shown
    assert "from the calibrated LM" in shown


def test_log_p_at_the_fitted_temperature_is_stored_while_the_text_is_read(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    store = Datastore.build(tiny_model, texts["train"], tmp_path / "store", keys="att")
    model = KNNLM(store).tune(texts["valid"], k=16)
    control = model.settings.calibrated
    assert control is not None
    control = replace(control, unigram_share=0.3)  # an untrained LM is best without its own words
    model = model._at(replace(model.settings, calibrated=control))
    first = model.evaluate(texts["test"])
    test = store.queries(texts["test"])
    assert test.meta["softmax_temperature"] == control.softmax_temperature
    assert test.keys == ("att", "ffn")  # the datastore itself holds att only
    assert not (test.path / "tempered").exists()
    # another T takes one pass over the logits, which is kept; a damaged one is computed again
    other = replace(control, softmax_temperature=control.softmax_temperature * 1.1)
    changed = model._at(replace(model.settings, calibrated=other))
    second = changed.evaluate(texts["test"])
    assert second.calibrated_ppl != first.calibrated_ppl
    (kept,) = (test.path / "tempered").iterdir()
    assert changed.evaluate(texts["test"]) == second
    (file,) = kept.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"\x7f")
    assert changed.evaluate(texts["test"]) == second
    assert file.is_file()
    assert model.evaluate(texts["test"]) == first


def test_settings_without_a_control_report_none(store: Datastore, texts: dict[str, Path]) -> None:
    result = KNNLM(store, lam=0.2, tau=1.0, k=8, metric="ip", exact=True).evaluate(texts["test"])
    assert result.calibrated_ppl is None
    assert result.calibrated_interp_ppl is None
    assert result.as_json()["calibrated_ratio"] is None
    assert "tune (again) to fit one" in str(result)


def test_components_are_compared_with_it_too(store: Datastore, texts: dict[str, Path]) -> None:
    KNNLM(store, exact=True).tune(texts["valid"], k=16)
    store.distill(texts["valid"], kind="clusters", size=8)
    store.combine(["knn", "clusters"], name="both")
    for name in ("clusters", "both"):
        result = KNNLM(store, component=name).evaluate(texts["test"])
        assert result.calibrated_ppl is not None
        assert result.calibrated_ratio is not None
    assert (
        len(
            {
                KNNLM(store, component=n).evaluate(texts["test"]).calibrated_ppl
                for n in ("clusters", "both")
            }
        )
        == 1
    )


def test_unigrams_alone_are_found_where_the_lm_knows_nothing(store: Datastore) -> None:
    """States of noise: the best calibrated LM is nearly the unigrams."""
    rng = np.random.default_rng(0)
    targets = rng.choice(store.entries.targets, 3000)
    states = 30 * rng.standard_normal((3000, store.entries.key("ffn").type.width))
    scores = TemperedLM(store.model.model, states.astype(np.float32), targets)
    unigrams = unigram_logprobs(store.entries.targets, targets, store.entries.vocab_size)
    fitted = calibrate(scores, scores.logprobs(1.0), unigrams)
    assert fitted.calibration.valid_ppl <= perplexity(unigrams) * (1 + 1e-6)
    assert fit_lambda(fitted.logprobs, unigrams) < 1e-3  # nothing is left to gain


def test_evaluate_without_it_reports_none(store: Datastore, valid: Entries) -> None:
    model = KNNLM(store, lam=0.2, tau=1.0, k=8, exact=True)
    plain = evaluate(model.component, valid, model.settings)
    assert plain.calibrated_ppl is None


def test_an_unfinished_pass_is_done_again(store: Datastore, valid: Entries, tmp_path: Path) -> None:
    first = control_logprobs(store.model.model, store.entries, valid, 1.3, 0.1)
    (kept,) = (
        p for p in (valid.path / "tempered").iterdir() if "1.3" in (p / "manifest.json").read_text()
    )
    manifest = kept / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"complete": true', '"complete": false'))
    again = control_logprobs(store.model.model, store.entries, valid, 1.3, 0.1)
    assert_allclose(first, again, atol=0)
    shutil.rmtree(valid.path / "tempered")


def test_a_given_weight_is_the_controls_too(store: Datastore, texts: dict[str, Path]) -> None:
    KNNLM(store, exact=True).tune(texts["valid"], k=16)
    result = KNNLM(store, exact=True, lam=0.0).evaluate(texts["test"])
    assert result.calibrated_interp_ppl == result.calibrated_ppl
    fields = result.as_json()
    assert fields["calibrated_lambda"] == 0
    assert fields["softmax_temperature"] > 0
    assert 0 <= fields["unigram_share"] <= 1


@pytest.fixture
def att_store(tiny_model: Path, texts: dict[str, Path], tmp_path: Path) -> Datastore:
    return Datastore.build(tiny_model, texts["train"], tmp_path / "att", keys="att")


def test_a_cached_text_without_ffn_is_read_again(
    att_store: Datastore, texts: dict[str, Path]
) -> None:
    """As an earlier version left it: the states of an att-only datastore, and settings."""
    KNNLM(att_store).tune(texts["valid"], k=16)
    (cached,) = (att_store.path / "cache/states").iterdir()
    shutil.rmtree(cached)
    earlier = cached.with_name("0")
    source = Files((texts["valid"],))
    windows = {name: att_store.entries.meta[name] for name in ("window", "stride")}
    build_entries(att_store.model, source, earlier, keys="att", logprobs=True, **windows)
    with pytest.raises(UsageError, match="was built from a text without splits"):
        att_store.distill(kind="clusters", size=8)
    att_store.distill(texts["valid"], kind="clusters", size=8)


def test_a_damaged_manifest_of_a_cached_text_is_no_obstacle(
    att_store: Datastore, texts: dict[str, Path]
) -> None:
    first = KNNLM(att_store).tune(texts["valid"], k=16).settings
    (cached,) = (att_store.path / "cache/states").iterdir()
    (cached / "manifest.json").write_text("{")
    assert KNNLM(att_store).tune(texts["valid"], k=16).settings == first


def test_a_text_that_changes_while_it_is_evaluated_leaves_nothing_behind(
    att_store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.txt"
    text = "it rained and the grey cat looked at a dog.\n" * 30
    file.write_text(text)
    model = KNNLM(att_store, lam=0.3, tau=1.0, k=8)
    real = Files.read

    def changing(self: Files, path: Path) -> Any:
        file.write_text(text + "later")
        return real(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "read", changing)
        with pytest.raises(KnnlmError, match=r"notes.txt changed while .*: run the same again"):
            model.evaluate(file, allow_overlap=True)
    file.write_text(text)
    assert model.evaluate(file, allow_overlap=True).tokens > 0
