import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import pytest

from knnlm.report import plots, svg
from knnlm.report.results import Curve

from . import sample


def ids(svg: str) -> set[str]:
    names = re.findall(r'\bid="([^"]*)"', svg)
    assert len(names) == len(set(names))
    return set(names)


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in ET.fromstring(svg).iter() if e.tag.endswith("}text")]


def test_the_same_curves_give_the_same_svg() -> None:
    assert plots.lambda_plot(sample.curves("lambda"), 41.0) == plots.lambda_plot(
        sample.curves("lambda"), 41.0
    )


def test_two_plots_share_no_id_even_with_the_same_curves() -> None:
    one = plots.temperature_plot(sample.curves("tau"), 41.0)
    two = plots.lambda_plot(sample.curves("tau"), 41.0)
    assert ids(one)
    assert not ids(one) & ids(two)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', one))
    assert used
    assert used <= ids(one)


def test_the_settings_of_matplotlib_are_left_as_they_were() -> None:
    before = dict(matplotlib.rcParams)
    plots.temperature_plot(sample.curves("tau"), 41.0)
    assert dict(matplotlib.rcParams) == before


def test_a_user_style_does_not_change_the_plot() -> None:
    wanted = plots.temperature_plot(sample.curves("tau"), 41.0)
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.facecolor": "red"}):
        assert plots.temperature_plot(sample.curves("tau"), 41.0) == wanted


def test_text_is_text_and_names_each_curve_with_its_optimum() -> None:
    curve = Curve("att l2", (0.5, 1.0, 2.0), (31.0, 30.0, 32.0), (1.0, 30.0))
    plain = Curve("ffn ip", (0.5, 1.0, 2.0), (33.0, 32.0, 34.0), None)
    shown = texts(plots.temperature_plot((curve, plain), 35.0))
    assert {"att l2: 30.00 at 1", "ffn ip", "LM alone", "validation perplexity"} <= set(shown)
    assert "LM alone" not in texts(plots.temperature_plot((curve, plain)))


def test_a_dollar_in_a_label_is_a_dollar() -> None:
    curve = Curve(r"$\nonsense{$ <b>&", (1.0, 2.0), (3.0, 4.0), None)
    assert r"$\nonsense{$ <b>&" in texts(plots.lambda_plot((curve,)))


def test_ink_and_series_follow_the_page() -> None:
    svg = plots.lambda_plot(sample.curves("lambda"), 41.0)
    assert "currentColor" in svg
    assert all(f"var(--series-{number}, #" in svg for number in (1, 2, 3, 4))
    assert "#010203" not in svg
    assert "<style" not in svg  # it would apply to the whole page
    assert "<metadata" not in svg


def test_infinite_points_are_left_out_and_steep_ones_do_not_flatten_the_rest() -> None:
    curve = Curve(
        "a", (0.0, 0.25, 0.5, 0.9, 1.0), (40.0, 35.0, 38.0, 4000.0, math.inf), (0.25, 35.0)
    )
    svg = plots.lambda_plot((curve,), 40.0)
    assert "nan" not in svg
    assert "inf" not in svg
    ticks = [float(text) for text in texts(svg) if re.fullmatch(r"\d+(\.\d+)?", text)]
    assert max(ticks) <= 60


@pytest.mark.parametrize("ys", [(30.0, 30.0), (math.inf, math.inf)])
def test_flat_or_absent_curves_can_be_drawn(ys: tuple[float, float]) -> None:
    assert plots.temperature_plot((Curve("a", (0.5, 1.0), ys, None),)).startswith("<svg")


def test_curves_past_the_fourth_are_dashed() -> None:
    curves = sample.curves("tau")

    def dashed(svg: str) -> int:
        return svg.count("stroke-dasharray: 6.4,3.2")

    assert dashed(plots.temperature_plot(curves[:4])) == 0
    assert dashed(plots.temperature_plot(curves)) == 2 * 4  # the curve and its line in the legend


def test_a_drawing_of_its_own_follows_the_readers_light_or_dark_mode() -> None:
    page = (Path(svg.__file__).parent / "static/page.css").read_text()
    light, _, dark = page.partition("@media (prefers-color-scheme: dark)")
    file = svg.standalone(plots.lambda_plot(sample.curves("lambda"), 41.0))
    style = ET.fromstring(file)[0].text or ""
    for mode, shown in zip((light, dark), style.split("@media"), strict=True):
        for name in ("ink", "series-1", "series-4"):
            color = re.search(rf"--{name}: #\w+;", mode)
            assert color
            assert color[0] in shown
    assert "currentColor" in file
