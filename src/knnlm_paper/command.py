"""`knnlm reproduce`: the verb that this package adds to the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from knnlm.cli.options import Json


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME…|all",
            help="Experiments, or labels of the paper's tables and figures; all is every one.",
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help="smoke (a minute), demo (an hour), laptop (hours, WikiText-2) "
            "or paper (WikiText-103).",
        ),
    ] = "demo",
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder of wiki.train.tokens, wiki.valid.tokens and "
            "wiki.test.tokens; by default the hub's.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for results and work; by default reproduce-SCALE."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="A further base LM for experiment 'models': folder, "
            "hub name or .gguf file (repeatable).",
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the experiments and what they cover; run nothing.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the work, its time and disk; run nothing.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Only write the report of the results in --out again.")
    ] = False,
    json: Json = False,
) -> None:
    """Run the paper's experiments and report which claims hold.

    An interrupted run resumes with the same command.

    Example: knnlm reproduce baselines recompute --scale demo
    """
    from knnlm.cli.options import show
    from knnlm.errors import UsageError
    from knnlm_paper.experiments import all_experiments, chosen
    from knnlm_paper.scales import scale_named, with_models

    size = with_models(scale_named(scale), model or [])
    if list_:
        every = all_experiments(size)
        listed = [
            {"name": e.name, "labels": list(e.labels), "title": e.title, "rows": len(e.conditions)}
            for e in every
        ]
        lines = [
            f"{e.name:16} {len(e.conditions):4} conditions  {e.title}{_labels(e.labels)}"
            for e in every
        ]
        lines += [
            "",
            f"Conditions at scale {size.name} (--scale has others). A label or a table's number "
            "(table3) names an experiment too.",
        ]
        show(json, {"recipes": listed}, lines)
        return
    folder = out or Path(f"reproduce-{size.name}")
    if report:
        _show_report(folder, size, json, {}, [])
        return
    if not names:
        raise UsageError(
            "no experiment given: name some (see knnlm reproduce --list), or write 'all'"
        )
    from knnlm_paper.runner import check_data
    from knnlm_paper.runner import reproduce as run

    wanted = chosen(size, names)
    if plan:
        check_data(size, data)
        _show_plan(wanted, size, json)
        return

    done = run(wanted, size, folder, data)
    fields = {"rows": done.conditions, "measured": done.measured, "seconds": round(done.seconds, 1)}
    line = f"{done.conditions} conditions ({done.measured} measured now, {done.seconds:,.0f} s)"
    _show_report(folder, size, json, fields, [line])


def _show_report(
    folder: Path, size: Any, json: bool, fields: dict[str, Any], lines: list[str]
) -> None:
    from knnlm.cli.options import show
    from knnlm_paper.report import write_report

    written = write_report(folder, size)
    where = {"out": str(folder), "results": str(written.markdown), "page": str(written.page)}
    show(
        json,
        {**where, **fields, "findings": written.findings},
        [*written.lines, "", *lines, f"Results: {written.markdown}", f"Page:    {written.page}"],
    )


def _labels(labels: tuple[str, ...]) -> str:
    return f" ({', '.join(labels)})" if labels else ""


def _show_plan(wanted: Any, size: Any, json: bool) -> None:
    from knnlm.cli.options import show
    from knnlm_paper.experiments import unique_conditions
    from knnlm_paper.plan import plan

    planned = plan(unique_conditions(wanted), size)
    fields = {
        "scale": size.name,
        "rows": planned.conditions,
        "seconds": round(planned.seconds),
        "bytes": planned.bytes,
        "operations_per_second": round(planned.speed),
        "steps": [s._asdict() for s in planned.steps],
    }
    lines = [
        f"{planned.conditions} conditions, {len(planned.steps)} steps, about "
        f"{_time(planned.seconds)} at {planned.speed / 1e9:,.0f} billion operations a second "
        f"(measured now), {_size(planned.bytes)} of disk",
        "",
        *_kinds(planned.steps),
        "",
        "Nothing was run. Every step with its time and disk: add --json.",
    ]
    show(json, fields, lines)


def _kinds(steps: Any) -> list[str]:
    """One line for each kind of work, with the step that takes longest."""
    lines = []
    for kind in dict.fromkeys(step.kind for step in steps):
        of_kind = [step for step in steps if step.kind == kind]
        longest = max(of_kind, key=lambda step: (step.seconds, step.bytes))
        lines.append(
            f"{kind:8} {len(of_kind):4} {_time(sum(s.seconds for s in of_kind)):>8} "
            f"{_size(sum(s.bytes for s in of_kind)):>9}  the longest: {longest.what}"
        )
    return lines


def _time(seconds: float) -> str:
    for unit, length in (("years", 31_557_600), ("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _size(count: int) -> str:
    for unit, length in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= length:
            return f"{count / length:,.1f} {unit}"
    return f"{count / 1000:,.0f} kB"


VERBS: tuple[Callable[..., None], ...] = (reproduce,)
"""What the command line of knnlm takes over from here."""
