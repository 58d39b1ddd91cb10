"""The demo's report as a document."""

from knnlm import formats
from knnlm.report import plots, sentences
from knnlm.report.columns import conditions_table
from knnlm.report.document import (
    Block,
    Commands,
    Definition,
    DefinitionList,
    Document,
    Equation,
    Figure,
    Section,
    Table,
    TokenView,
)
from knnlm.report.results import DemoResults


def document(results: DemoResults) -> Document:
    """The whole report; sections without content are left out."""
    sections = (
        Section("Every condition", _conditions(results)),
        Section("Retrieval temperature and interpolation weight", _figures(results)),
        Section("Token by token", _passage(results)),
        Section("Facts", _facts(results)),
        Section("What to try next", (Commands(results.commands),) if results.commands else ()),
    )
    return Document(
        results.title,
        tuple(section for section in sections if section.blocks),
        headline=sentences.headline(results),
        introduction=(
            *((control,) if (control := sentences.control(results)) else ()),
            f"{sentences.basis(results)} {sentences.PERPLEXITY}",
            _equation(results),
        ),
        command=results.command,
    )


def results_table(results: DemoResults) -> Table:
    """One row for each condition, the best on the validation text highlighted."""
    return conditions_table(results.conditions, sentences.best_condition(results))


def summary(results: DemoResults) -> str:
    """The headline, the control and what they rest on, a line of plain text each."""
    lines = (sentences.headline(results), sentences.control(results), sentences.basis(results))
    return "\n".join(line for line in lines if line)


def _equation(results: DemoResults) -> Equation:
    index = sentences.best_condition(results)
    best = results.conditions[index] if index is not None else None
    symbols = (
        ("P", "the probability of the next token"),
        ("p_LM", "the probability that the language model gives it"),
        (
            "p_kNN",
            "the share of the retrieved neighbors that were followed by it, each weighted by its "
            "similarity to this context",
        ),
        ("λ", "the interpolation weight of the neighbors" + _here(best.lam if best else None)),
        (
            "τ",
            "the retrieval temperature inside p_kNN: a small one trusts the nearest neighbor, a "
            "large one counts all alike" + _here(best.tau if best else None),
        ),
    )
    return Equation("P = (1 − λ) · p_LM + λ · p_kNN", tuple(Definition(*s) for s in symbols))


def _here(value: float | None) -> str:
    return "" if value is None else f" (here {formats.significant(value)})"


def _conditions(results: DemoResults) -> tuple[Block, ...]:
    table = results_table(results)
    meanings = tuple(Definition(column.name, column.help) for column in table.columns)
    return table, DefinitionList(meanings, folded="What the columns mean")


def _figures(results: DemoResults) -> tuple[Block, ...]:
    base = sentences.base_level(results)
    dashed = " Below the dashed line, retrieval helps." if base is not None else ""
    figures = []
    if curves := results.temperature_curves:
        figures.append(
            Figure(
                "temperature",
                "At the left only the nearest neighbor counts, at the right all count alike. "
                f"The mark is the best τ.{dashed} {sentences.lowest(curves, 'τ')}".rstrip(),
                plots.temperature_plot(curves, base),
                lead="How much more should nearer neighbors count?",
                half_width=True,
            )
        )
    if curves := results.lambda_curves:
        figures.append(
            Figure(
                "lambda",
                "λ = 0 is the language model alone, λ = 1 the neighbors alone; together they can "
                "be better than either. The mark is the best λ. "
                f"{sentences.lowest(curves, 'λ')}".rstrip(),
                plots.lambda_plot(curves, base),
                lead="How much should neighbors weigh?",
                half_width=True,
            )
        )
    return tuple(figures)


def _passage(results: DemoResults) -> tuple[Block, ...]:
    passage = results.passage
    if passage is None:
        return ()
    source = f"{passage.document} ({passage.setting})"
    if not passage.tokens:
        return (f"{source}: the passage is empty.",)
    text = (
        f"From unseen text: {source}. {sentences.passage_summary(passage)} A token can gain "
        "without limit, but lose at most −ln(1−λ): the language model always keeps its 1−λ."
    )
    return text, TokenView(passage.tokens)


def _facts(results: DemoResults) -> tuple[Block, ...]:
    entries = tuple(Definition(name, value) for name, value in results.facts)
    return (DefinitionList(entries),) if entries else ()
