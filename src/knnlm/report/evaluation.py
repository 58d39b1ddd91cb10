"""An evaluation for people: the lines of `knnlm eval`, and a table for notebooks."""

from knnlm.evaluation import Evaluation, TunedSettings
from knnlm.report import formats
from knnlm.report.document import Cell, Column, Table


def evaluation_lines(evaluation: Evaluation, settings: TunedSettings) -> list[str]:
    """Settings, perplexities and the interval, one fact a line."""
    e = evaluation
    shares = f"coverage {e.coverage:.1%}, helping {e.helping:.1%}"
    if e.recall is not None:
        shares += f", recall {e.recall:.3f}"
    interval = "no interval: too little text, or a token that is impossible"
    if e.ratio_ci95 is not None:
        low, high = e.ratio_ci95
        interval = f"95% interval {low:.4f} to {high:.4f} (resampling each {e.ratio_ci95_unit})"
    mixed, alone = (
        ("with component", "component alone")
        if settings.retrieval is None
        else ("kNN-LM", "kNN alone")
    )
    return [
        str(settings),
        f"{e.tokens:,} tokens, {e.words:,} words",
        *(
            f"  {name:<16} {formats.perplexity(token)} per token, {formats.perplexity(word)} per "
            "word"
            for name, token, word in (
                ("base LM", e.base_ppl, e.base_word_ppl),
                (mixed, e.interp_ppl, e.interp_word_ppl),
            )
        ),
        f"  {'oracle':<16} {formats.perplexity(e.oracle_ppl)} per token",
        f"  {alone:<16} {formats.perplexity(e.component_ppl)} ({shares})",
        f"ratio {e.ratio:.4f}, {interval}",
    ]


def evaluation_table(evaluation: Evaluation, settings: TunedSettings) -> Table:
    """Perplexities of the LM alone, the mixture, the oracle and the component alone."""
    e = evaluation
    interval = "" if e.ratio_ci95 is None else formats.change_interval(e.ratio_ci95)
    name = "kNN" if settings.retrieval is not None else settings.component
    rows = (
        ("base LM", e.base_ppl, e.base_word_ppl, Cell("")),
        (f"with {name}", e.interp_ppl, e.interp_word_ppl, Cell(formats.change(e.ratio), interval)),
        ("oracle", e.oracle_ppl, e.oracle_word_ppl, Cell("")),
    )
    cells = tuple(
        (Cell(who), Cell(formats.perplexity(token)), Cell(formats.perplexity(word)), change)
        for who, token, word, change in rows
    )
    columns = (
        Column("", "sentence"),
        Column("perplexity per token", "number"),
        Column("per word", "number"),
        Column("change (95 % interval)", "number"),
    )
    return Table(columns, cells, f"{settings}; {e.tokens:,} tokens", best=1)
