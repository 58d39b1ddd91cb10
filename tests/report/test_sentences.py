import math
from dataclasses import replace

import pytest

from knnlm import formats
from knnlm.evaluation.explanation import ExplainedToken
from knnlm.report import sentences
from knnlm.report.results import ConditionResult, Curve, DemoResults
from knnlm.report.tokens import token_text

from . import sample

NB = formats.NBSP


def of(condition: ConditionResult) -> DemoResults:
    return replace(sample.results(), conditions=(condition,))


@pytest.mark.parametrize(
    ("interval", "wanted"),
    [
        ((0.80, 0.90), "Retrieval lowered perplexity"),
        ((0.98, 1.01), "no clear difference"),
        ((1.01, 1.05), "Retrieval raised perplexity"),
        ((0.99, 1.0), "no clear difference"),
        ((math.nan, math.nan), "no clear difference"),
    ],
)
def test_the_headline_claims_no_more_than_the_interval(
    interval: tuple[float, float], wanted: str
) -> None:
    assert wanted in sentences.headline(of(replace(sample.condition(), ratio_ci95=interval)))


def test_the_headline_in_full() -> None:
    condition = replace(
        sample.condition(), base_ppl=40.0, interp_ppl=34.0, ratio_ci95=(0.842, 0.858)
    )
    assert sentences.headline(of(condition)) == (
        "Retrieval lowered perplexity on unseen text from 40.00 to 34.00 "
        f"(−15.0{NB}%, 95{NB}% interval −15.8 to −14.2{NB}%)."
    )


def test_the_first_of_equal_conditions_is_best() -> None:
    conditions = (
        sample.condition(interp=35.0),
        sample.condition("ffn", interp=30.0),
        sample.condition("x", interp=30.0),
    )
    assert sentences.best_condition(replace(sample.results(), conditions=conditions)) == 1


def test_approximate_search_says_which_scores() -> None:
    assert (
        sentences.describe(sample.condition(search="IVF"))
        == "key att, metric l2, IVF search, index scores"
    )


def test_the_base_level_is_the_curve_at_lambda_zero() -> None:
    curves = (Curve("a", (0.1, 0.2), (9.0, 8.0), None), Curve("b", (0.0, 0.5), (11.5, 9.0), None))
    assert sentences.base_level(replace(sample.results(), lambda_curves=curves)) == 11.5
    assert sentences.base_level(replace(sample.results(), lambda_curves=curves[:1])) is None


def test_lowest_names_the_lowest_curve() -> None:
    curves = (
        Curve("a", (1.0,), (9.0,), (1.0, 9.0)),
        Curve("b", (2.0,), (8.0,), (2.0, 8.0)),
        Curve("c", (2.0,), (7.0,), None),
    )
    assert sentences.lowest(curves, "τ") == f"Lowest: b, 8.00 at τ{NB}={NB}2."
    assert sentences.lowest(curves[2:], "τ") == ""


def test_token_numbers() -> None:
    token = ExplainedToken("x", math.log(0.1), -math.inf, math.log(0.05), ())
    assert token_text(token) == (
        "language model 0.1 · neighbors 0 · mixed 0.05 · gain −0.69 nats (×0.5)"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.306, "8.31"),
        (99.996, "100.0"),
        (312.44, "312.4"),
        (999.96, "1,000"),
        (12345.6, "12,346"),
        (math.inf, "∞"),
        (math.nan, "–"),
    ],
)
def test_perplexity(value: float, text: str) -> None:
    assert formats.perplexity(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.25, "0.25"),
        (12.5, "12.5"),
        (2048.4, "2,048"),
        (-3.0, "−3"),
        (0.000012, "1.2×10⁻⁵"),
        (3.2e7, "3.2×10⁷"),
        (99.97, "100"),
    ],
)
def test_significant(value: float, text: str) -> None:
    assert formats.significant(value) == text


def test_signs() -> None:
    assert formats.signed(-0.004, 2) == "0.00"
    assert formats.signed(-0.5, 1) == "−0.5"
    assert formats.signed(0.5, 1) == "+0.5"
    assert formats.change(1.034) == f"+3.4{NB}%"
    assert formats.change_interval((0.9, math.inf)) == "−10.0 to ∞"


def test_white_space_can_be_seen_and_long_text_keeps_its_end() -> None:
    assert formats.visible("a\r\n\tb\n") == "a↵⇥b↵"
    assert formats.tail("abcdef", 3) == "…def"
    assert formats.tail("abc", 3) == "abc"


def test_durations() -> None:
    assert formats.duration(8.44) == f"8.4{NB}s"
    assert formats.duration(150) == f"2.5{NB}min"


def test_the_best_condition_is_chosen_on_validation_not_on_the_reported_text() -> None:
    flattered = replace(sample.condition(interp=30.0), valid_ppl=36.0)
    chosen = replace(sample.condition("ffn", interp=31.0), valid_ppl=35.0)
    assert sentences.best_condition(replace(sample.results(), conditions=(flattered, chosen))) == 1
