"""knnlm demo"""

from pathlib import Path
from typing import Annotated

import typer

from knnlm.cli.options import Json


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the model, the datastore and the page.")
    ] = Path("demo"),
    scale: Annotated[
        str, typer.Option("--scale", help="demo (minutes) or smoke (seconds).")
    ] = "demo",
    json: Json = False,
) -> None:
    """Train a small LM, add retrieval, and show what that changes.

    The text is Python's own documentation. It takes a few minutes on two cores; an interrupted run
    resumes with the same command.

    Example: knnlm demo --out demo
    """
    from rich.console import Console

    from knnlm.cli.options import show
    from knnlm.experiments.demo import as_json
    from knnlm.experiments.demo import demo as run
    from knnlm.report.demo import results_table, summary
    from knnlm.report.terminal import table

    found = run(out, scale)
    if json:
        show(True, as_json(found), [])
        return
    Console().print(table(results_table(found.page), found.page.title))
    lines = [summary(found.page), "", f"Page: {found.report.resolve()}", "", "What to try next:"]
    show(False, {}, lines + [f"  {command}" for command in found.page.commands])
