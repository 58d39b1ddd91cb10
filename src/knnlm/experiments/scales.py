"""What "smoke" and "demo" mean, for every experiment on the embedded text."""

from dataclasses import dataclass

from knnlm.errors import unknown
from knnlm.experiments.texts import Portions, Sizes
from knnlm.models import Preset, presets


@dataclass(frozen=True, kw_only=True)
class EmbeddedScale:
    """How large an experiment on the embedded text is."""

    name: str
    preset: Preset
    """The base LM."""
    portions: Portions
    sizes: Sizes
    """About what these portions give: other versions of Python have other documentation."""
    k: int


SMOKE = EmbeddedScale(
    name="smoke",
    preset=presets.SMOKE,
    portions=Portions(train_characters=40, valid_characters=200, test_characters=200),
    sizes=Sizes(10_000, 1_600, 1_600),
    k=64,
)
DEMO = EmbeddedScale(
    name="demo",
    preset=presets.DEMO,
    portions=Portions(train_characters=10_000, valid_characters=700, test_characters=1_000),
    sizes=Sizes(413_000, 3_200, 4_600),
    k=1024,
)
SCALES = {scale.name: scale for scale in (DEMO, SMOKE)}


def embedded_scale(name: str) -> EmbeddedScale:
    """The scale of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]
