"""Regimes: a learned head beside the neighbors at every point."""

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions import Learned
from tests.paper.conftest import Smoke


def test_regimes_have_a_learned_head_at_every_point(smoke: Smoke) -> None:
    wanted = (
        Checkpoint("main"),
        Checkpoint("width-16"),
        Checkpoint("main", 20),
        Checkpoint("no-dropout", 40),
    )
    for lm in wanted:
        r = smoke.results.measurement(Learned(lm=lm))
        assert r.own_tau.valid_ppl <= r.base.valid_ppl
        assert 0 <= r.own_tau.lam <= 1
