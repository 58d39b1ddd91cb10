"""Explained and compared texts as lines for a terminal: plain characters, no markup."""

import io
import shutil
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from knnlm import formats
from knnlm.evaluation import ExplainedToken, RetrievedNeighbor
from knnlm.report.tokens import neighbor_context

_CONTEXT = 60  # characters of a neighbor's context
_NEIGHBORS = 3


def lines(tokens: Sequence[ExplainedToken], lam: float, component: str | None = None) -> list[str]:
    """The mixture's formula, then each token with its strongest neighbors.

    Args:
        tokens: The explained text.
        lam: The interpolation weight.
        component: The name of the component that was mixed in; None for kNN.
    """
    second = component or "kNN"
    neighbors = "" if component else ", then its strongest neighbors' share of the vote"
    formula = f"each token: P = {1 - lam:.3f}·p_LM + {lam:.3f}·p_{second}{neighbors}"
    return [formula, *token_lines(tokens, second)]


def token_lines(tokens: Sequence[ExplainedToken], component: str = "kNN") -> list[str]:
    """One line for each token, followed by one for each of its strongest neighbors."""
    text: list[str] = []
    for token in tokens:
        logprobs = (token.mixed_logprob, token.lm_logprob, token.component_logprob)
        mixed, lm, second = (formats.probability(logprob).ljust(8) for logprob in logprobs)
        shown = f"⟦{formats.visible(token.text)}⟧".ljust(16)
        text.append(f"{shown}  P {mixed}  LM {lm}  {component} {second}".rstrip())
        text += [_neighbor_line(neighbor) for neighbor in token.neighbors[:_NEIGHBORS]]
    return text


def side_by_side(prompt: str, base: str, knn: str, component: str | None = None) -> list[str]:
    """Two continuations of one prompt in two columns, as wide as the terminal."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), expand=True)
    for name in ("base LM", "kNN-LM" if component is None else f"with {component}"):
        table.add_column(Text(name), ratio=1, overflow="fold")
    texts = (formats.printable(text.strip("\n")) for text in (base, knn))
    table.add_row(*(Text(text) for text in texts))
    console = Console(file=io.StringIO(), width=max(60, shutil.get_terminal_size().columns))
    with console.capture() as captured:
        console.print(table)
    return [formats.printable(prompt), *(line.rstrip() for line in captured.get().splitlines())]


def _neighbor_line(neighbor: RetrievedNeighbor) -> str:
    mark = "✓" if neighbor.is_target else " "
    context = neighbor_context(neighbor, _CONTEXT)
    token = formats.visible(neighbor.token)
    document = formats.visible(neighbor.document)
    return f"    {mark} {formats.percent(neighbor.weight):>6}  {context}⟦{token}⟧  ({document})"
