"""Regimes: a learned head beside the neighbours at every point."""

from tests.paper.conftest import Smoke


def test_regimes_have_a_learned_head_at_every_point(smoke: Smoke) -> None:
    wanted = (
        "main_att_learned",
        "width-16_att_learned",
        "main_att_learned_step-20",
        "no-dropout_att_learned_step-40",
    )
    heads = {name: smoke.records[name]["results"] for name in wanted}
    for r in heads.values():
        assert r["tuned"]["valid_ppl"] <= r["base"]["valid_ppl"]
        assert 0 <= r["tuned"]["lambda"] <= 1
