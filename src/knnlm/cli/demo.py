"""knnlm demo"""

from pathlib import Path
from typing import Annotated

import typer

from knnlm.cli.options import Json, show


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

    from knnlm.experiments import demo_as_json, run_demo
    from knnlm.report.demo import results_table, summary
    from knnlm.report.terminal import table

    shown = run_demo(out, scale)
    if json:
        show(True, demo_as_json(shown), [])
        return
    results = shown.results
    Console().print(table(results_table(results), results.title))
    lines = [summary(results), "", f"Page: {shown.report.resolve()}", "", "What to try next:"]
    show(False, {}, lines + [f"  {command}" for command in results.commands])
