"""How numbers and raw text are written, in one place for pages, plots and terminals."""

import math
import re

MINUS = "\N{MINUS SIGN}"
NBSP = "\N{NO-BREAK SPACE}"
NOTHING = "\N{EN DASH}"
# control characters but for white space, marks that change the direction of what follows, halves of
# surrogate pairs, which have no encoding, and a carriage return that does not end a line
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
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


def change_interval(ratios: tuple[float, float] | None) -> str:
    """Two ratios as the ends of a signed change: −16.1 to −13.8 %; a dash where there are none."""
    if ratios is None:
        return NOTHING
    low, high = ratios
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


def count(value: int | None) -> str:
    """A whole number with thousands separated; a dash where there is none."""
    return NOTHING if value is None else f"{value:,}"


def duration(seconds: float) -> str:
    """Seconds below two minutes, else minutes."""
    if not math.isfinite(seconds):
        return _not_finite(seconds)
    if seconds >= 120:
        return f"{seconds / 60:.1f}{NBSP}min"
    return f"{seconds:.1f}{NBSP}s"


def printable(text: str) -> str:
    """Text that can steer neither a terminal nor the direction of the text around it.

    Control characters become signs (␛), marks of direction and what cannot be encoded their code
    (‹U+202E›); white space and right-to-left letters stay.
    """
    return _UNPRINTABLE.sub(lambda match: _sign(match[0]), text)


def visible(text: str) -> str:
    """Printable text for one line: line ends and tabs become signs, so that they can be seen."""
    text = text.replace("\r\n", "\n").replace("\n", "↵").replace("\r", "↵").replace("\t", "⇥")
    return printable(text)


def tail(text: str, limit: int) -> str:
    """The last `limit` characters: what comes just before a token matters most."""
    return text if len(text) <= limit else "…" + text[-limit:]


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.replace('-', MINUS)}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return NOTHING  # not measured
    return "∞" if value > 0 else MINUS + "∞"
