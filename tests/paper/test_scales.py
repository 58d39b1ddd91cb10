"""A scale's name means one thing."""

from knnlm.experiments import scales
from knnlm_paper.scales import DEMO_SCALE, SMOKE_SCALE


def test_scales_of_one_name_are_the_same_for_the_demo_and_the_paper() -> None:
    for ours, papers in ((scales.SMOKE, SMOKE_SCALE), (scales.DEMO, DEMO_SCALE)):
        assert papers.name == ours.name
        assert papers.portions == ours.portions
        assert papers.k == ours.k
        main = papers.lm("main").preset
        assert {**main.settings(), "keep": ()} == ours.preset.settings()
