"""A generated text, token by token, in a terminal: who wanted the token, and what was retrieved for
it.

Plain lines, no markup, so that text from outside cannot become any. Also two texts side by side.
"""

import io
import shutil
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from knnlm.evaluation.explanation import ExplainedToken, RetrievedNeighbor
from knnlm.report import formats

_BEFORE = 60
_HITS = 3


def lines(tokens: Sequence[ExplainedToken], lam: float, component: str | None = None) -> list[str]:
    """One line for each token, and its strongest neighbours in their own context; a component has
    none."""
    second = component or "kNN"
    hits = "" if component else ", then its strongest neighbours' share of the vote"
    found = [f"each token: P = {1 - lam:.3f}·p_LM + {lam:.3f}·p_{second}{hits}"]
    for token in tokens:
        logprobs = (token.mixed_logprob, token.lm_logprob, token.component_logprob)
        p, lm, knn = (formats.probability(x).ljust(8) for x in logprobs)
        found.append(f"{_shown(token.text)}  P {p}  LM {lm}  {second} {knn}".rstrip())
        found += [_neighbour(hit) for hit in token.neighbors[:_HITS]]
    return found


def side_by_side(prompt: str, base: str, knn: str, component: str | None = None) -> list[str]:
    """Two continuations of one prompt in two columns, as wide as the terminal."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), expand=True)
    for name in ("base LM", "kNN-LM" if component is None else f"with {component}"):
        table.add_column(Text(name), ratio=1, overflow="fold")
    table.add_row(Text(base.strip("\n")), Text(knn.strip("\n")))
    console = Console(file=io.StringIO(), width=max(60, shutil.get_terminal_size().columns))
    with console.capture() as captured:
        console.print(table)
    return [prompt, *(line.rstrip() for line in captured.get().splitlines())]


def _neighbour(hit: RetrievedNeighbor) -> str:
    mark = "✓" if hit.is_target else " "
    before = formats.visible(formats.tail(hit.before, _BEFORE))
    return f"    {mark} {formats.percent(hit.weight):>6}  {before}⟦{formats.visible(hit.token)}⟧  ({hit.document})"


def _shown(text: str) -> str:
    return f"⟦{formats.visible(text)}⟧".ljust(16)
