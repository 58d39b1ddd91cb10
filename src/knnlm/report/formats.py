"""How numbers and raw text are written, in one place for page, plots and terminal.

Knows nothing of what the numbers mean.
"""

import math

MINUS = "\N{MINUS SIGN}"
NBSP = "\N{NO-BREAK SPACE}"
NOTHING = "\N{EN DASH}"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def perplexity(value: float) -> str:
    """About four digits, as many as a reader compares: 8.31, 41.20, 312.4, 1,234, ∞."""
    if not math.isfinite(value):
        return _not_finite(value)
    if value >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 99.995 else f"{value:.2f}"


def percent(share: float) -> str:
    """A share (0..1) in percent, one decimal."""
    if not math.isfinite(share):
        return _not_finite(share)
    return f"{share * 100:.1f}{NBSP}%"


def change(ratio: float) -> str:
    """A ratio as a signed change: 0.85 is −15.0 %."""
    if not math.isfinite(ratio):
        return _not_finite(ratio)
    return signed((ratio - 1) * 100, 1) + f"{NBSP}%"


def change_interval(low: float, high: float) -> str:
    """Two ratios as the ends of a signed change: −16.1 to −13.8 %."""
    return f"{change(low).removesuffix(NBSP + '%')} to {change(high)}"


def signed(value: float, digits: int) -> str:
    """With its sign, a real minus, and no sign on what rounds to zero."""
    if not math.isfinite(value):
        return _not_finite(value)
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return (MINUS if value < 0 else "+") + text


def significant(value: float) -> str:
    """Three significant digits without an exponent where that stays short."""
    if not math.isfinite(value):
        return _not_finite(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return _scientific(value)
    if abs(value) >= 100:
        return f"{value:,.0f}".replace("-", MINUS)
    return f"{value:.3g}".replace("-", MINUS)


def probability(logprob: float) -> str:
    """A natural log probability as a probability; one that was never given any is 0."""
    return significant(math.exp(logprob))


def count(value: int) -> str:
    """A whole number with thousands separated."""
    return f"{value:,}"


def duration(seconds: float) -> str:
    """Seconds below two minutes, else minutes."""
    if not math.isfinite(seconds):
        return _not_finite(seconds)
    if seconds >= 120:
        return f"{seconds / 60:.1f}{NBSP}min"
    return f"{seconds:.1f}{NBSP}s"


def visible(text: str) -> str:
    """Text for one line: line ends and tabs become signs, so that white space can be seen."""
    return text.replace("\r\n", "\n").replace("\n", "↵").replace("\r", "↵").replace("\t", "⇥")


def tail(text: str, limit: int) -> str:
    """The last `limit` characters: what comes just before a token matters most."""
    return text if len(text) <= limit else "…" + text[-limit:]


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.replace('-', MINUS)}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return NOTHING  # not measured
    return "∞" if value > 0 else MINUS + "∞"
