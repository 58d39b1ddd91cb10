"""What the paper ruled out: soft labels, places in the text, ensembles of LMs."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knnlm.api import Datastore
from knnlm.datastore.entries import Entries, open_entries
from knnlm.evaluation.calibration import TemperedLM
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, fit_weights, mix, mix_several
from knnlm.experiments.derive import derive
from knnlm.files import fingerprint, read_json
from knnlm.models.load import LanguageModel
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import joined_tokens
from knnlm.text.windows import cut_windows
from knnlm.training.language_model import RECORD
from knnlm.training.soft_targets import soft_targets
from knnlm_paper.ensembles import FACTORS
from knnlm_paper.experiments import ensembling, ruled_out
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.experiments.ensembling import two_stores, with_lms, with_one
from knnlm_paper.experiments.ruled_out import by_choice
from knnlm_paper.located import context_lengths, correlation, located
from knnlm_paper.numbers import base_of
from knnlm_paper.place_findings import place_findings, stolen_findings
from knnlm_paper.report.hypotheses import hypotheses
from knnlm_paper.report.words import outcome
from knnlm_paper.rows import Ensemble, Listed, Reach
from knnlm_paper.scales import SMOKE_SCALE, texts
from knnlm_paper.teaching import Neighbours, SoftLabels, rows_of_stream, soft_labels, teacher_point
from knnlm_paper.workshop import Workshop
from tests.paper.conftest import Smoke


@pytest.fixture
def many(lm: LanguageModel, texts: dict[str, Path], tmp_path: Path) -> Entries:
    """A store of several documents."""
    words = texts["train"].read_text().split()
    files = []
    for part in range(3):
        files.append(tmp_path / f"{part}.txt")
        files[-1].write_text(" ".join(words[part * 60 : (part + 1) * 60]))
    return Datastore.build(lm, files, tmp_path / "many").entries


def test_every_token_of_the_stream_has_its_row(
    many: Entries, lm: LanguageModel, tmp_path: Path
) -> None:
    stream = joined_tokens(lm.tokenizer, Files(tuple(sorted(tmp_path.glob("?.txt")))))
    rows = rows_of_stream(many.documents)
    assert len(rows) == len(stream)
    assert (rows < 0).sum() == 3
    assert np.array_equal(many.targets[rows[rows >= 0]], stream[rows >= 0])
    assert np.array_equal(rows[rows >= 0], np.arange(many.count))


def test_labels_are_what_the_lm_says_and_what_neighbours_add(
    many: Entries, lm: LanguageModel, tmp_path: Path
) -> None:
    rows = np.array([0, 5, 40])
    plain = SoftLabels(many, lm.model).labels(rows)
    states = torch.from_numpy(many.key("ffn").gather(rows).astype(np.float32))
    assert torch.allclose(plain, lm.model.get_output_embeddings()(states).softmax(1))
    table = soft_targets(many, "att", "l2", 8, 1.0, tmp_path / "soft")
    mixed = SoftLabels(many, lm.model, Neighbours(lambda: table, 1.0, 0.25)).labels(rows)
    assert torch.allclose(mixed.sum(1), torch.ones(3), atol=2e-3)
    added = torch.zeros_like(plain)
    words, shares = (table.columns[name].gather(rows) for name in ("words", "shares"))
    for row, word in np.ndindex(words.shape):
        added[row, words[row, word]] += float(shares[row, word])
    assert torch.allclose(mixed, 0.75 * plain + 0.25 * added, atol=1e-6)


def test_the_loss_leaves_out_what_nothing_predicts(many: Entries, lm: LanguageModel) -> None:
    teacher = SoftLabels(many, lm.model)
    places = np.arange(6)[None]
    logits = torch.randn(1, 6, many.vocab_size, requires_grad=True)
    loss = teacher.loss(logits, places)
    loss.backward()
    labels = teacher.labels(teacher.rows[places[0, 1:]])
    assert loss.item() == pytest.approx(
        -(labels * logits[0, 1:].log_softmax(1)).sum(1).mean().item(), rel=1e-5
    )
    assert logits.grad is not None
    assert not logits.grad[0, 0].any()


@given(st.lists(st.integers(2, 40), min_size=1, max_size=4), st.integers(1, 9), st.data())
def test_contexts_are_those_of_the_windows(
    lengths: list[int], window: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, window))
    found = context_lengths(lengths, window, stride)
    wanted = []
    for length in lengths:
        for place in range(1, length):
            (w,) = [w for w in cut_windows(length, window, stride) if w.first <= place <= w.stop]
            wanted.append(place - w.start)
    assert found.tolist() == wanted
    assert found.max() <= window


def test_a_correlation_is_pearsons_and_its_interval_covers_it() -> None:
    rng = np.random.default_rng(0)
    x, documents = rng.normal(size=900), np.repeat(np.arange(30), 30)
    y = 0.5 * x + rng.normal(size=900)
    found = correlation(x, y, documents)
    assert found is not None
    assert found.r == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found.low < found.r < found.high
    assert found.low > 0.3
    none = correlation(x, rng.normal(size=900), documents)
    assert none is not None
    assert none.low < 0 < none.high
    assert correlation(np.ones(900), y, documents) == (0.0, 0.0, 0.0)
    assert correlation(x[:0], y[:0], documents[:0]) is None


def test_weights_of_several_are_no_worse_on_validation_than_those_of_fewer(smoke: Smoke) -> None:
    sizes = range(1, len(smoke.scale.ruled_out.ensemble) + 1)
    found = [smoke.records[with_lms(smoke.scale, n).name]["results"] for n in sizes]
    for field in ("tuned", "on_calibrated"):
        ppls = [r[field]["valid_ppl"] for r in found]
        assert all(more <= fewer * (1 + 1e-9) for fewer, more in itertools.pairwise(ppls))
        assert all(
            sum(r[field]["shares"]) + r[field].get("unigrams", 0) == pytest.approx(1) for r in found
        )
    assert found[0]["tuned"]["valid_ppl"] <= found[0]["base"]["valid_ppl"]


def test_neighbours_alone_in_an_ensemble_are_the_knn_lm(smoke: Smoke) -> None:
    arm = exactly(paper_arm(smoke.scale))
    alone, knn = (smoke.records[name]["results"] for name in (Ensemble((), (arm,)).name, arm.name))
    assert alone["tuned"]["ppl"] == pytest.approx(knn["tuned"]["ppl"], rel=1e-5)
    assert alone["on_calibrated"]["valid_ppl"] <= knn["on_calibrated"]["valid_ppl"] * (
        1 + 1e-6
    )  # T may change there
    both = smoke.records[two_stores(smoke.scale).name]["results"]
    assert both["tuned"]["valid_ppl"] <= knn["tuned"]["valid_ppl"] * (1 + 1e-6)


def test_calibrated_lms_are_mixed_at_temperatures_that_fit_the_mixture(smoke: Smoke) -> None:
    """The equation of ensembles.py, written out; no factor is better on validation text than the
    one chosen."""
    found = smoke.records[with_one("2V").name]["results"]["on_calibrated"]
    workshop = Workshop(
        smoke.scale, texts(smoke.scale, None), smoke.folder / "work", {}, soft_labels
    )
    store = workshop.plain("main", None).store
    bases = {lm: base_of(workshop, lm, None, store.targets) for lm in ("main", "2V")}
    ppls = {}
    for factor in FACTORS:
        each: dict[str, list[np.ndarray]] = {"valid": [], "test": []}
        for lm, base in bases.items():
            head = workshop.lms.model(lm, None).model
            for split, q in zip(each, workshop.queries(lm, None), strict=True):
                at = factor * base.calibration.temperature
                each[split].append(TemperedLM(head, q.key("ffn").all(), q.targets).logprobs(at))
        for split, q in zip(each, workshop.queries("main", None), strict=True):
            counts = np.bincount(store.targets, minlength=store.vocab_size) + 1
            each[split].append(np.log(counts / counts.sum())[q.targets])
        shares = fit_weights(each["valid"])
        ppls[factor] = perplexity(mix_several(each["valid"], shares))
        if factor == found["factor"]:
            assert [*found["shares"], found["unigrams"]] == pytest.approx(shares, abs=1e-4)
            assert found["ppl"] == pytest.approx(
                perplexity(mix_several(each["test"], shares)), rel=1e-6
            )
    assert found["valid_ppl"] == pytest.approx(min(ppls.values()), rel=1e-9)
    assert (
        found["valid_ppl"]
        < smoke.records[with_one("2V").name]["results"]["base"]["calibrated_valid_ppl"]
    )


def test_ensembles_know_what_their_lms_are(smoke: Smoke) -> None:
    base = smoke.records[paper_arm(smoke.scale).name]["results"]["lm"]
    shape = smoke.scale.shape("main")
    more = {"2V": shape.vocab_size * shape.width, "3V": 2 * shape.vocab_size * shape.width}
    for recipe in (ensembling.ensembles, ensembling.memorised, ensembling.soft_labels):
        for row in recipe(smoke.scale).rows:
            for other in smoke.records[row.name]["results"]["others"]:
                assert other["parameters"] == base["parameters"] + more.get(other["name"], 0)
                assert other["ppl"] > 1


def test_an_ensemble_is_the_mixture_of_its_lms_own_probabilities(smoke: Smoke) -> None:
    states = smoke.folder / "work" / "states"
    logs = [
        [
            open_entries(next((states / lm).glob(f"{split}-*"))).lm_logprob.astype(np.float64)
            for lm in ("main", "2V")
        ]
        for split in ("valid", "test")
    ]
    found = smoke.records[with_one("2V").name]["results"]
    lam = fit_lambda(logs[0][0], logs[0][1])
    assert found["tuned"]["shares"] == pytest.approx([1 - lam, lam], abs=1e-4)
    assert found["tuned"]["ppl"] == pytest.approx(
        perplexity(mix(logs[1][0], logs[1][1], lam)), rel=1e-6
    )


def test_the_neighbours_that_teach_are_those_of_the_best_tau(smoke: Smoke) -> None:
    texts_of = texts(smoke.scale, None)
    workshop = Workshop(smoke.scale, texts_of, smoke.folder / "work", {}, soft_labels)
    arm = smoke.records[exactly(paper_arm(smoke.scale)).name]["results"]["tuned"]
    point = teacher_point(workshop, "main", None)
    assert (point.tau, point.lam) == pytest.approx((arm["temperature"], arm["lambda"]), rel=1e-3)
    teacher = soft_labels(workshop, "knn-lm")
    assert teacher.describe()["temperature"] == point.tau
    assert teacher.table is not None
    assert teacher.table.manifest["meta"]["temperature"] == point.tau
    assert soft_labels(workshop, "lm").describe() == {"store": teacher.store.fingerprint}


def test_lms_begin_and_learn_as_they_say(smoke: Smoke) -> None:
    """An LM trained otherwise in that folder would be refused by its recipe."""
    folder, found = smoke.folder / "work", texts(smoke.scale, None)
    workshop = Workshop(smoke.scale, found, folder, {}, soft_labels)
    main = workshop.lms.model("main", None)
    lessons: dict[str, dict[str, object]] = {
        "memorised": {"begin": main.fingerprint},
        "taught-by-lm": {"teacher": soft_labels(workshop, "lm").describe()},
        "taught-by-knn-lm": {"teacher": soft_labels(workshop, "knn-lm").describe()},
    }
    for name, lesson in lessons.items():
        lm = smoke.scale.lm(name)
        wanted = {
            "preset": lm.preset.settings(),
            "seed": lm.seed,
            "train": found.train.describe(),
            "valid": found.stop.describe(),
            **lesson,
        }
        assert read_json(folder / "lm" / name / RECORD)["recipe"] == fingerprint(wanted)


def test_lists_of_retrieved_words_cover_what_neighbours_cover(smoke: Smoke) -> None:
    few, more = (smoke.records[Listed(k=k).name]["results"] for k in smoke.scale.ruled_out.lists)
    assert few["coverage"] < more["coverage"]
    for duplicates in (True, False):
        found = smoke.records[by_choice(smoke.scale, duplicates).name]["results"]
        assert (
            found["coverage"]
            == smoke.records[exactly(paper_arm(smoke.scale)).name]["results"]["coverage"]
        )


def test_places_are_those_of_the_rows(many: Entries, lm: LanguageModel, tmp_path: Path) -> None:
    files = sorted(tmp_path.glob("?.txt"))
    whole = Datastore.build(lm, files, tmp_path / "scored", logprobs=True).entries
    rows = np.sort(np.random.default_rng(0).choice(many.count, 120, replace=False))
    drawn = derive(many, tmp_path / "drawn", many.keys, {}, ids=rows)
    places = drawn.table.columns["position"].all().astype(float)
    found = located(drawn, whole, -places)["document"]
    assert found["gain"]["r"] == pytest.approx(-1)
    assert found["gain"]["tokens"] == 120
    thirds = found["gain"]["thirds"]
    assert sum(thirds["first"]["sum"]) / sum(thirds["first"]["tokens"]) > -places.mean()
    assert sum(thirds["last"]["sum"]) / sum(thirds["last"]["tokens"]) < -places.mean()
    every = whole.table.columns["position"].all()
    assert found["loss"]["tokens"] == whole.count
    assert found["loss"]["r"] == pytest.approx(np.corrcoef(every, -whole.lm_logprob)[0, 1])
    window, stride = many.meta["window"], many.meta["stride"]
    seen = context_lengths([d.tokens for d in many.documents], window, stride)[rows].astype(float)
    again = located(drawn, whole, seen)["window"]["gain"]
    later = places > window
    assert again["tokens"] == later.sum()
    assert again["r"] == pytest.approx(1 if len(set(seen[later])) > 1 else 0)


def test_a_gain_that_grows_with_the_place_is_found_and_none_is_not() -> None:
    def record(gain: float) -> dict[str, object]:
        rng = np.random.default_rng(0)
        thirds = {
            name: {"tokens": [50.0] * 30, "sum": list(3 + grown + 0.1 * rng.normal(size=30))}
            for name, grown in (("first", 0.0), ("last", gain))
        }
        quantities = {what: {"thirds": thirds} for what in ("loss", "gain")}
        return {"results": dict.fromkeys(("window", "document"), quantities)}

    names = [row.name for row in ruled_out.location(SMOKE_SCALE).rows]
    for gain, wanted in ((5.0, "does not hold"), (0.0, "holds")):
        found = {
            f.claim.name: f
            for f in place_findings({name: record(gain) for name in names}, SMOKE_SCALE)
        }
        f = found["what neighbours gain does not depend on the place in the document"]
        assert f.verdict == wanted
        assert f.effect == pytest.approx(np.expm1(gain / 50), abs=0.005)


def test_a_word_that_cannot_be_chosen_is_no_small_effect() -> None:
    results = {"words": 4096, "unreachable": 1, "lm": {}}
    (f,) = stolen_findings({Reach("main").name: {"results": results}}, SMOKE_SCALE)
    assert outcome(f) == "does not hold"


def test_the_report_shows_every_hypothesis(smoke: Smoke) -> None:
    text = (smoke.folder / "RESULTS.md").read_text()
    table = text.split("## What it is not")[1].split("\n## ")[0]
    assert table.count("\n| ") == 1 + len(hypotheses(smoke.records, smoke.scale))
    assert "nan" not in table
