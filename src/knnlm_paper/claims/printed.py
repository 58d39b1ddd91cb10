"""Effects that follow from the perplexities the paper printed."""

from knnlm_paper.expected import Published, printed
from knnlm_paper.retrieval import Retrieval


def printed_gain(label: str, setting: Retrieval) -> float | None:
    """base/ppl - 1 of a setting in one of the paper's tables, if it is there."""
    row = _row(label, setting)
    return None if row is None else gain_of(row)


def printed_ratio(label: str, worse: Retrieval, best: Retrieval) -> float | None:
    """ppl(worse)/ppl(best) - 1 of two settings in one of the paper's tables, if they are there."""
    a, b = _row(label, worse), _row(label, best)
    return None if a is None or b is None else lead_of(b, a)


def gain_of(row: Published) -> float:
    """base/ppl - 1."""
    return 1 / (1 + row.change) - 1


def lead_of(best: Published, worse: Published) -> float:
    """ppl(worse)/ppl(best) - 1."""
    return (1 + worse.change) / (1 + best.change) - 1


def _row(label: str, setting: Retrieval) -> Published | None:
    return printed(
        label,
        state=setting.state,
        metric=setting.metric,
        search=setting.search,
        score=setting.score,
    )
