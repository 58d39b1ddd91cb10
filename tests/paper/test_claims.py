"""Every claim has an id and asks for what is measured; and what the committed records say."""

import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knnlm.errors import UsageError
from knnlm_paper.claims import Claim, Findings, all_claims, all_findings
from knnlm_paper.claims.claim import (
    AS_LEARNED,
    CALIBRATED,
    ONE_TAU,
    OWN_TAU,
    PLAIN_AND_CALIBRATED,
    THREE_TAUS,
    Term,
    better,
    gain,
    less,
    times,
)
from knnlm_paper.claims.deciding import decide
from knnlm_paper.claims.printed import gain_of, lead_of, printed_gain, printed_ratio
from knnlm_paper.claims.substitutes import HALF, recovers
from knnlm_paper.conditions import KNN, Learned
from knnlm_paper.expected import printed, published
from knnlm_paper.experiments import all_experiments
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import SCALES, SMOKE_SCALE, Scale, with_models
from tests.paper.conftest import Smoke
from tests.paper.constructed import results_of

LAPTOP = Path(__file__).parents[2] / "docs" / "results" / "laptop"
HEAVY = ("torch", "faiss", "transformers", "scipy", "datasets", "matplotlib")
ID = re.compile(r"[A-Za-z0-9.,+-]+(@(tau-1|one-tau|own-tau|calibrated))?")
SOURCE = re.compile(r"section \d(\.\d)?|appendix [A-E](\.\d)*|skeptic|audit( F\d)?|beyond")
POINTS = {
    "tau-1": {"tau_1", "tau_1_lambda_of_test", "as_learned", "base"},
    "one-tau": {"one_tau", "base"},
    "own-tau": {"own_tau", "base"},
    "calibrated": {"on_calibrated", "calibrated"},
}
"""Which points of measurements a second part of an id means."""
VERDICTS: dict[str, str] = json.loads((Path(__file__).parent / "laptop_verdicts.json").read_text())
"""The verdict on every claim that the committed records give, by its id."""
GROUPS = {"retrieval", "skeptic", "audit", "substitutes", "beyond", "ruled out"}

at_every_scale = pytest.mark.parametrize("scale", SCALES.values(), ids=lambda s: s.name)


@pytest.fixture(scope="module")
def laptop() -> Results:
    return Results.open(LAPTOP)


@pytest.fixture(scope="module")
def findings(laptop: Results) -> Findings:
    return all_findings(laptop)


def sums_of(scale: Scale) -> list[Claim]:
    """All claims that are sums of log-likelihoods."""
    return [claim for group in all_claims(scale).values() for claim in group]


def every_claim(scale: Scale) -> list[Claim]:
    """The others too."""
    groups = all_findings(results_of({}, scale)).groups.values()
    return [finding.claim for group in groups for finding in group]


def conditions_of(scale: Scale) -> set[Any]:
    return {c for experiment in all_experiments(scale) for c in experiment.conditions}


@at_every_scale
def test_every_claim_has_an_id_of_its_own(scale: Scale) -> None:
    claims = every_claim(scale)
    ids = [claim.id for claim in claims]
    assert len(ids) > 280
    assert [each for each, times in Counter(ids).items() if times > 1] == []
    assert [each for each in ids if not ID.fullmatch(each)] == []
    assert {claim.id for claim in sums_of(scale)} < set(ids)
    statements = Counter(claim.statement for claim in claims)
    assert [each for each, times in statements.items() if times > 1] == []


@at_every_scale
def test_every_claim_is_a_sentence_with_a_source(scale: Scale) -> None:
    for claim in every_claim(scale):
        assert claim.sentence.strip().endswith("."), claim.id
        assert not claim.sentence.endswith(".."), claim.id
        assert SOURCE.fullmatch(claim.source), claim.id
        assert not claim.statement.endswith("."), claim.id
        assert claim.margin >= 0, claim.id


def test_an_id_and_a_statement_say_how_conditions_are_mixed() -> None:
    claim = Claim(topic="a-beats-b", sentence="A beats B.", source="beyond", at=OWN_TAU)
    assert (claim.id, claim.statement) == ("a-beats-b@own-tau", "A beats B, each at its own τ")
    plain = replace(claim, at=None)
    assert (plain.id, plain.statement) == ("a-beats-b", "A beats B")
    assert [at.id for at in THREE_TAUS] == ["tau-1", "one-tau", "own-tau"]
    assert [at.base for at in PLAIN_AND_CALIBRATED] == ["base", "calibrated"]


def test_lms_that_are_added_have_claims_of_their_own() -> None:
    before = [claim.id for claim in every_claim(SMOKE_SCALE)]
    after = [claim.id for claim in every_claim(with_models(SMOKE_SCALE, ["some/my_lm"]))]
    assert set(after) - set(before) == {"knn-helps-some-my-lm"}
    assert all(map(ID.fullmatch, after))
    assert len(after) == len(before) + 1


@at_every_scale
def test_no_claim_asks_for_what_no_experiment_measures(scale: Scale) -> None:
    known = conditions_of(scale)
    for claim in sums_of(scale):
        assert claim.terms, claim.id
        for term in (*claim.terms, *claim.given):
            assert term.condition in known, (claim.id, term.condition.name)


@at_every_scale
def test_no_claim_asks_for_a_point_that_its_kind_does_not_have(
    scale: Scale, laptop: Results
) -> None:
    known = {
        (condition.kind, point)
        for condition in laptop
        if hasattr(laptop.measurement(condition), "documents")
        for point in laptop.measurement(condition).documents.log_likelihood
    }
    for claim in sums_of(scale):
        for term in (*claim.terms, *claim.given):
            assert (term.condition.kind, term.point) in known, claim.id


@at_every_scale
def test_every_claim_compares_as_its_id_says(scale: Scale) -> None:
    for claim in sums_of(scale):
        weights = [term.weight for term in claim.terms]
        assert sum(weights) == pytest.approx(0), claim.id  # as much of one as of the other
        assert any(weight > 0 for weight in weights)
        if claim.at is None:
            continue
        points = {term.point for term in claim.terms}
        if AS_LEARNED.point in points:  # neighbors beside them are at the one τ
            assert points <= {AS_LEARNED.point, ONE_TAU.point, "base"}, claim.id
            assert claim.at.id in ("tau-1", "one-tau")
        else:
            assert points <= POINTS[claim.at.id], claim.id
            assert claim.at.point in points, claim.id


def test_terms_are_sums_of_log_likelihoods() -> None:
    a, b = exactly(paper_retrieval(SMOKE_SCALE)), Learned()
    assert better(a, b, OWN_TAU, "base") == (Term(1, KNN(a), "own_tau"), Term(-1, b, "base"))
    assert gain(b, CALIBRATED) == (Term(1, b, "on_calibrated"), Term(-1, b, "calibrated"))
    assert gain(b, OWN_TAU, "calibrated")[1] == Term(-1, b, "calibrated")
    assert less(gain(b, OWN_TAU)) == (Term(-1, b, "own_tau"), Term(1, b, "base"))
    assert [term.weight for term in times(-0.5, gain(b, OWN_TAU))] == [-0.5, 0.5]


@at_every_scale
def test_what_is_not_measured_is_told_for_every_claim(scale: Scale) -> None:
    nothing = all_findings(results_of({}, scale))
    assert {finding.verdict for finding in nothing.values()} == {"not measured"}
    assert set(nothing.groups) == GROUPS


def test_findings_are_in_order_and_counted(findings: Findings) -> None:
    every = [finding for group in findings.groups.values() for finding in group]
    assert [finding.claim.id for finding in every] == list(findings)
    assert list(findings.values()) == every
    assert len(findings) == len(list(findings)) == len(every) == len(VERDICTS)
    assert all(each in findings for each in findings)
    assert all(findings[each].claim.id == each for each in findings)


def test_an_unknown_id_is_an_error(findings: Findings) -> None:
    assert "att-beat-ffn@own-tau" not in findings
    with pytest.raises(
        UsageError,
        match="unknown claim 'att-beat-ffn@own-tau': did you mean 'att-beats-ffn@own-tau'",
    ):
        findings["att-beat-ffn@own-tau"]
    with pytest.raises(UsageError, match="did you mean 'att-beats-ffn@own-tau'"):
        findings.get("att-beat-ffn@own-tau")
    with pytest.raises(UsageError, match="unknown claim 'att-beats-ffn'"):
        findings["att-beats-ffn"]  # without how it is mixed


def test_two_claims_of_one_id_are_an_error(findings: Findings) -> None:
    one, other = findings["att-beats-ffn@own-tau"], findings["att-beats-ffn@one-tau"]
    assert len(Findings({"retrieval": [one], "audit": [other]})) == 2
    with pytest.raises(ValueError, match="two claims have the id att-beats-ffn@own-tau"):
        Findings({"retrieval": [one, other], "audit": [replace(one, verdict="undecided")]})


def test_every_verdict_of_the_committed_records_is_pinned(findings: Findings) -> None:
    """Whoever changes how claims are decided sees which verdicts change."""
    decided = {claim_id: finding.verdict for claim_id, finding in findings.items()}
    assert list(decided) == list(VERDICTS)
    assert {each: v for each, v in decided.items() if v != VERDICTS[each]} == {}


def test_effects_of_committed_records_are_ratios_of_their_perplexities(
    laptop: Results, findings: Findings
) -> None:
    att = paper_retrieval(laptop.scale)
    settings = {"att-beats-ffn@own-tau": (att, replace(att, state="ffn"))}
    settings["att-beats-ffn-exact@own-tau"] = (exactly(att), exactly(replace(att, state="ffn")))
    settings["index-beats-exact@own-tau"] = (att, exactly(att))
    for claim_id, (a, b) in settings.items():
        found = findings[claim_id]
        assert len(found.seeds) == len(laptop.scale.seeds)
        for lm, effect in zip(laptop.scale.seeds, found.seeds, strict=True):
            ours, theirs = (laptop.word_ppl(KNN(r).with_lm(lm), "own_tau") for r in (a, b))
            assert effect == pytest.approx(theirs / ours - 1, abs=1e-5)
        assert found.low <= found.effect <= found.high
        better_word, better_token = found.per_word, found.per_token
        assert better_word.low <= better_word.value <= better_word.high
        assert (better_token.value < 0) == (better_word.value < 0) == (found.effect > 0)


@pytest.mark.parametrize(
    ("claim_id", "parts"),
    [
        (
            "index-beats-exact@own-tau",
            {
                "index-neighbors-beat-exact-ones@own-tau": 1,
                "exact-scores-beat-index-ones@own-tau": -1,
            },
        ),
        (
            "index-beats-exact@one-tau",
            {
                "index-neighbors-beat-exact-ones@one-tau": 1,
                "index-scores-beat-exact-ones@one-tau": 1,
            },
        ),
        (
            "scores-matter-more-than-neighbors@one-tau",
            {
                "index-scores-beat-exact-ones@one-tau": 1,
                "index-neighbors-beat-exact-ones@one-tau": -1,
            },
        ),
        (
            "neighbors-matter-more-than-scores@own-tau",
            {
                "index-neighbors-beat-exact-ones@own-tau": 1,
                "exact-scores-beat-index-ones@own-tau": 1,
            },
        ),
        (
            "small-datastore-gains-more-from-an-index@own-tau",
            {"index-beats-exact-small@own-tau": 1, "index-beats-exact@own-tau": -1},
        ),
        (
            "att-lead-is-temperature",
            {"att-beats-ffn@one-tau": 1, "att-beats-ffn@own-tau": -2},
        ),
        (
            "index-lead-is-temperature",
            {"index-beats-exact@one-tau": 1, "index-beats-exact@own-tau": -2},
        ),
        (
            "zeros-hurt-exact-search-more@tau-1",
            {"zeros-hurt-exact-search@tau-1": 1, "zeros-hurt-the-index@tau-1": -1},
        ),
        ("own-tau-beats-tau-1-exact", {"knn-helps-exact@own-tau": 1, "knn-helps-exact@tau-1": -1}),
        ("l2-and-ip-differ-little@one-tau", {"ip-beats-l2@one-tau": 1}),
        ("more-embeddings-are-worse@own-tau", {"more-embeddings-do-not-help-att@own-tau": -1}),
    ],
)
def test_claims_about_the_same_add_up(
    claim_id: str, parts: dict[str, int], findings: Findings
) -> None:
    check_sum(findings, claim_id, parts)


def check_sum(findings: Findings, claim_id: str, parts: dict[str, int]) -> None:
    """Effects are ratios, so their logarithms add up."""
    total = sum(weight * np.log1p(findings[each].effect) for each, weight in parts.items())
    assert np.log1p(findings[claim_id].effect) == pytest.approx(total, abs=1e-9)


def test_deciding_needs_no_model_libraries() -> None:
    code = f"""
import json, sys
from pathlib import Path
from knnlm_paper.claims import all_findings
from knnlm_paper.results import Results
findings = all_findings(Results.open(Path({str(LAPTOP)!r})))
changes = [finding.per_token for finding in findings.values()]
print(json.dumps([len(changes), [m for m in {HEAVY} if m in sys.modules]]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [len(VERDICTS), []]


def test_what_the_paper_printed_is_what_it_says_of_itself() -> None:
    table = printed("tab:knn_recompute", state="att", metric="l2", search="exact", score="exact")
    assert table is not None
    assert table.change == pytest.approx(19.735 / 21.750 - 1)
    for row in published()["tab:knn_other_models"]:
        assert row.base is not None
        assert row.base - row.cells["interp"] == pytest.approx(row.cells["gain"], abs=1e-9)
    base = 21.750
    att, knn = (
        r.cells["interp"] for r in (published()["tab:input_representation"][i] for i in (1, 0))
    )
    assert (base - att) / (base - knn) == pytest.approx(0.53, abs=0.03)  # "about 55%"


def test_effects_of_what_the_paper_printed_are_ratios() -> None:
    near = paper_retrieval(SMOKE_SCALE)
    exact, index = (
        printed("tab:knn_recompute", state="att", metric="l2", search=r.search, score=r.score)
        for r in (exactly(near), near)
    )
    assert exact is not None
    assert index is not None
    found = printed_ratio("tab:knn_recompute", exactly(near), near)
    assert found == pytest.approx((1 + exact.change) / (1 + index.change) - 1)
    assert lead_of(index, exact) == found
    assert printed_gain("tab:knn_recompute", exactly(near)) == pytest.approx(21.750 / 19.735 - 1)
    assert gain_of(exact) == pytest.approx(21.750 / 19.735 - 1)
    nowhere = replace(near, state="att-raw")
    assert printed_gain("tab:knn_recompute", nowhere) is None
    assert printed_ratio("tab:knn_recompute", nowhere, near) is None


def test_every_claim_is_measured_by_some_experiment(smoke: Smoke) -> None:
    results, said = smoke.results, all_findings(smoke.results)
    for group, found in said.groups.items():
        for claim in (f.claim for f in found if f.verdict == "not measured"):
            assert group == "substitutes", claim.id
            points = [(term.condition, term.point) for term in claim.terms]
            assert all(condition in results for condition, _ in points), claim.id
            assert any(results.ppl(*each) == math.inf for each in points), claim.id


def test_half_of_the_gain_is_what_the_claim_measures(smoke: Smoke) -> None:
    claim = recovers(smoke.scale, "head-on-att", "A head", Learned(), HALF, OWN_TAU)
    assert claim.id == "head-on-att-has-50-percent@own-tau"
    found = decide(claim, smoke.results)
    knn = KNN(exactly(paper_retrieval(smoke.scale)))
    main = smoke.results.only([*smoke.results.learning_seeds(Learned()), knn])
    gains = [
        np.log1p(decide(replace(claim, terms=gain(c, OWN_TAU)), main).effect)
        for c in (Learned(), knn)
    ]
    assert np.log1p(found.effect) == pytest.approx(gains[0] - HALF * gains[1], rel=1e-6)
    assert len(found.seeds) == smoke.scale.learning.seeds
