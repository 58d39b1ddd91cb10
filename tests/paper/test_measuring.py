"""What conditions share when they are measured: on small arrays, against what is written out."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.components.knn import TargetVotes
from knnlm.evaluation.calibration import Calibration
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.experiments.base_lms import Checkpoint
from knnlm.experiments.workspace import SearchData
from knnlm.search.neighbors import Neighbors
from knnlm_paper.measuring.base_lm import BaseLogs, Logs, base_numbers
from knnlm_paper.measuring.documents import DocumentSums
from knnlm_paper.measuring.mixtures import fitted_mixture
from knnlm_paper.measuring.temperatures import at_tau, best_tau, tau_point
from knnlm_paper.measuring.votes import measure_votes
from knnlm_paper.measuring.workspace import PaperWorkspace
from knnlm_paper.retrieval import Retrieval, exactly
from knnlm_paper.scales import SMOKE_SCALE, texts
from tests.arrays import InMemory
from tests.paper.conftest import Smoke

QUERIES, ENTRIES, K, V = 40, 60, 8, 6
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, V, ENTRIES).astype(np.int32)


def some_votes(seed: int) -> TargetVotes:
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.normal(0, 3, (QUERIES, K)).astype(np.float32), axis=1)[:, ::-1]
    near = InMemory(Neighbors(rng.integers(0, ENTRIES, (QUERIES, K)), scores))
    return TargetVotes(near, TOKENS, rng.integers(0, V, QUERIES).astype(np.int32))


def some_logs(seed: int) -> Logs:
    return np.log(np.random.default_rng(seed).uniform(0.05, 0.9, QUERIES))


BASE = BaseLogs(some_logs(1), some_logs(2), some_logs(3), some_logs(4), Calibration(1.1, 0.05, 3.0))
DOCUMENTS = np.repeat(np.arange(4), QUERIES // 4)


def some_data() -> SearchData:
    test = SimpleNamespace(words=25, document_numbers=DOCUMENTS)
    return cast(SearchData, SimpleNamespace(test=test))


def test_the_numbers_of_an_lm_are_those_of_its_logs() -> None:
    numbers = base_numbers(BASE, some_data())
    assert (numbers.tokens, numbers.words, numbers.valid_tokens) == (QUERIES, 25, QUERIES)
    assert numbers.ppl == pytest.approx(np.exp(-BASE.test.mean()))
    assert numbers.word_ppl == pytest.approx(np.exp(-BASE.test.sum() / 25))
    assert numbers.calibrated_ppl == pytest.approx(np.exp(-BASE.calibrated_test.mean()))
    assert numbers.calibrated_temperature == 1.1
    assert BASE.over(True) == (BASE.calibrated_valid, BASE.calibrated_test)
    assert BASE.over(False) == (BASE.valid, BASE.test)


def test_sums_are_those_of_the_documents_and_leave_out_the_impossible() -> None:
    sums = DocumentSums(some_data(), BASE)
    sums.add("own_tau", BASE.valid)
    sums.add("alone", np.where(np.arange(QUERIES) == 3, -np.inf, BASE.valid))
    documents = sums.collected()
    assert documents.tokens == (10, 10, 10, 10)
    assert set(documents.log_likelihood) == {"base", "calibrated", "own_tau"}
    expected = BASE.valid.reshape(4, 10).sum(axis=1)
    assert documents.log_likelihood["own_tau"] == pytest.approx(expected, abs=1e-6)


@given(st.integers(0, 1000))
def test_a_mixture_is_fitted_on_validation_text_and_reported_on_test_text(seed: int) -> None:
    lm_valid, other_valid, lm_test, other_test = (some_logs(seed + i) for i in range(4))
    mixture = fitted_mixture([lm_valid, other_valid], [lm_test, other_test])
    lam = fit_lambda(lm_valid, other_valid)
    expected = perplexity(mix(lm_valid, other_valid, lam))
    assert mixture.point.shares == pytest.approx((1 - lam, lam), abs=1e-4)
    assert mixture.point.valid_ppl == pytest.approx(expected, rel=1e-6)
    assert mixture.point.ppl == pytest.approx(perplexity(mixture.test))
    assert mixture.test == pytest.approx(mix(lm_test, other_test, lam), abs=1e-3)


def test_the_best_tau_is_no_worse_than_one_or_any_other() -> None:
    votes = some_votes(5)
    best = best_tau(BASE.valid, votes)
    for tau in (0.3, 1.0, 3.0, 10.0):
        assert best.ppl <= at_tau(BASE.valid, votes, tau).ppl * (1 + 1e-6)
    given_point = best._replace(ppl=0.5)
    assert best_tau(BASE.valid, votes, given_point) == given_point


def test_a_point_holds_what_its_tau_and_lambda_gave() -> None:
    valid, test = some_votes(5), some_votes(6)
    point = at_tau(BASE.valid, valid, 2.0)
    measured = tau_point(BASE.test, test.logprobs(2.0), point)
    assert (measured.temperature, measured.lam, measured.units) == (2.0, point.lam, point.units)
    assert measured.lam == pytest.approx(fit_lambda(BASE.valid, valid.logprobs(2.0)))
    assert measured.ppl == perplexity(mix(BASE.test, test.logprobs(2.0), point.lam))


def test_votes_are_measured_at_every_point() -> None:
    valid, test = some_votes(5), some_votes(6)
    workspace = cast(PaperWorkspace, SimpleNamespace(base=lambda *_: BASE))
    further = {"one_tau": at_tau(BASE.valid, valid, 4.0)}
    voted = measure_votes(workspace, Checkpoint("main"), some_data(), (valid, test), further)
    assert list(voted.points) == ["tau_1", "one_tau", "own_tau"]
    assert [point.temperature for point in voted.points.values()][:2] == [1.0, 4.0]
    assert voted.coverage == test.coverage
    assert voted.base == base_numbers(BASE, some_data())
    for name, point in voted.points.items():
        knn = test.logprobs(point.temperature)
        mixed = mix(BASE.test, knn, point.lam)
        assert point.ppl == perplexity(mixed)
        assert point.word_ppl == pytest.approx(np.exp(-mixed.sum() / 25))
        assert point.helping == pytest.approx((knn > BASE.test).mean())
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(point.helped), np.uint8), count=QUERIES)
        assert np.array_equal(bits.astype(bool), knn > BASE.test)
        assert point.ppl_of_test_lambda <= point.ppl * (1 + 1e-9)
        sums = mixed.reshape(4, 10).sum(axis=1)
        assert voted.documents.log_likelihood[name] == pytest.approx(sums, abs=1e-6)
    over = mix(
        BASE.calibrated_test,
        test.logprobs(voted.on_calibrated.temperature),
        voted.on_calibrated.lam,
    )
    assert voted.on_calibrated.ppl == perplexity(over)


def test_a_tool_is_made_once_for_a_workspace(tmp_path: Any) -> None:
    workspace = PaperWorkspace(SMOKE_SCALE, texts(SMOKE_SCALE, None), tmp_path)
    made: list[PaperWorkspace] = []

    def make(of: PaperWorkspace) -> int:
        made.append(of)
        return len(made)

    assert [workspace.tool(make), workspace.tool(make)] == [1, 1]
    assert made == [workspace]
    assert PaperWorkspace(SMOKE_SCALE, texts(SMOKE_SCALE, None), tmp_path).tool(make) == 2


@pytest.fixture
def workspace(smoke: Smoke) -> PaperWorkspace:
    """Of the folder of the smoke run: nothing is searched again."""
    return PaperWorkspace(smoke.scale, texts(smoke.scale, None), smoke.folder / "work")


def test_scores_are_those_that_a_retrieval_names(smoke: Smoke, workspace: PaperWorkspace) -> None:
    index = Retrieval(k=smoke.scale.k, factory=smoke.scale.factory)
    exact = exactly(index)

    def near(retrieval: Retrieval, **changes: Any) -> Neighbors:
        changed = Retrieval(**{**vars(retrieval), **changes})
        return workspace.neighbors_of(changed, "test").read(0, 50)

    assert np.array_equal(
        np.sort(near(exact).ids), np.sort(near(exact, score="index").ids)
    )  # the same neighbors
    assert np.array_equal(np.sort(near(index).ids), np.sort(near(index, score="exact").ids))
    assert not np.allclose(near(exact).scores, near(exact, score="index").scores)
    half = near(exact, score="half").scores
    assert np.array_equal(half, half.astype(np.float16).astype(np.float32))
    flipped = near(index, score="flipped").scores
    assert np.allclose(np.sort(flipped), np.sort(-near(index).scores))
    zeros = near(exact, zeros=0.5)
    assert (zeros.scores >= near(exact).scores).all()  # further entries can only be nearer
    count = workspace.data(exact.spec).store.count
    for ids, clean in zip(zeros.ids, near(exact).ids, strict=True):
        kept = ids[ids < count]
        assert np.array_equal(kept, clean[: len(kept)])


def test_the_one_tau_is_the_best_of_the_papers_retrieval(
    smoke: Smoke, workspace: PaperWorkspace
) -> None:
    retrieval = Retrieval(k=smoke.scale.k, factory=smoke.scale.factory)
    best = best_tau(workspace.base("main").valid, workspace.votes(retrieval, "valid"))
    assert workspace.one_tau("main") == best.tau
    valid, test = workspace.best_votes(retrieval, workspace.base("main").valid)
    assert np.array_equal(valid, workspace.votes(retrieval, "valid").logprobs(best.tau))
    assert np.array_equal(test, workspace.votes(retrieval, "test").logprobs(best.tau))
    assert workspace.base("main") is workspace.base("main")
