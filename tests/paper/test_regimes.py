"""Regimes: a learned head beside the neighbours at every point."""

from tests.paper.conftest import Smoke


def test_regimes_have_a_learned_head_at_every_point(smoke: Smoke) -> None:
    heads = {n: r["results"] for n, r in smoke.records.items() if r["kind"] == "learned"}
    assert set(heads) == {
        "main_att_learned", "width-16_att_learned", "main_att_learned_step-20", "no-dropout_att_learned_step-40",
    }  # fmt: skip
    for r in heads.values():
        assert r["tuned"]["valid_ppl"] <= r["base"]["valid_ppl"]
        assert 0 <= r["tuned"]["lambda"] <= 1
