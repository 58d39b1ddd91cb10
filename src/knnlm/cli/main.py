"""`knnlm VERB`: finds the verb, turns expected failures into one sentence, and sets the exit code.

0 done; 1 could not do it; 2 wrong usage. Verbs import heavy libraries when they run, so that --help
is fast."""

import dataclasses
import gc
import importlib
import importlib.util
import io
import re
import shlex
import sys
from collections.abc import Callable
from typing import Any

import typer

from knnlm.cli import (
    add,
    build,
    compact,
    demo,
    distill,
    evaluate,
    forget,
    generate,
    index,
    info,
    serve,
    train,
    tune,
    verify,
)
from knnlm.cli.groups import ModelOptions, TextOptions, by_option
from knnlm.cli.interruption import handle_interrupts, ignore_interrupts, say_interrupted
from knnlm.errors import KnnlmError
from knnlm.files import shorten_paths
from knnlm.formats import printable
from knnlm.progress import messages_on_stderr
from knnlm.version import __version__

_INTERRUPTED = 130  # what typer itself makes of Ctrl-C

_VERBS = {
    "Datastore.add": "add",
    "Datastore.compact": "compact",
    "Datastore.forget": "forget",
    "Datastore.build": "build",
    "Datastore.build_index": "index",
    "Datastore.distill": "distill",
    "Datastore.info": "info",
    "KNNLM.tune": "tune",
    "train": "train",
}
"""The verb that does what a method of the library does."""
_OTHER_PACKAGES = ("knnlm_paper",)
_SEVERAL = ("--text", "--valid")
_SWITCHES = (
    "--json",
    "--exact",
    "--allow-overlap",
    "--verbose",
    "--embedded",
    "--logprobs",
    "--sample",
    "--chat",
    "--compare",
    "--explain",
    "--public",
    "--log-texts",
    "--list",
    "--plan",
    "--report",
    "--help",
    "-h",
    "--version",
)


def _verbs_of_other_packages() -> list[Callable[..., None]]:
    """Verbs of packages that are installed beside the library, which never imports them."""
    packages = [name for name in _OTHER_PACKAGES if importlib.util.find_spec(name)]
    return [verb for name in packages for verb in importlib.import_module(f"{name}.command").VERBS]


app = typer.Typer(
    name="knnlm",
    help="Nearest-neighbor language models from any causal LM and any text. Start with: knnlm demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_OWN_VERBS: tuple[Callable[..., None], ...] = (
    demo.demo,
    train.train,
    build.build,
    index.index,
    tune.tune,
    distill.distill,
    evaluate.evaluate,
    generate.generate,
    serve.serve,
    serve.explore,
    add.add,
    forget.forget,
    compact.compact,
    info.info,
    verify.verify,
)
for verb in (*_OWN_VERBS, *_verbs_of_other_packages()):
    app.command(name="eval" if verb is evaluate.evaluate else None)(by_option(verb))


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def spread_texts(arguments: list[str]) -> list[str]:
    """`--text A B` as `--text A --text B`, which is what click understands; the same for --valid.

    Only once the verb and its own argument (STORE or MODEL; train has none) have been seen: before
    that, what follows a path may be that argument."""
    needed = 1 if arguments[:1] == ["train"] else 2
    understood: list[str] = []
    plain, spread, value_of = 0, "", ""
    for word in arguments:
        if word.startswith("-") and word != "-":
            name, given, _ = word.partition("=")
            spread = name if name in _SEVERAL and plain >= needed else ""
            value_of = "" if given or name in _SWITCHES else name
        elif value_of:
            value_of = ""
        elif spread:
            understood.append(spread)
        else:
            plain += 1
        understood.append(word)
    return understood


def in_commands(message: str, arguments: list[str]) -> str:
    """A message of the library as the command line says it.

    `Methods` become commands, and `parameters` the flags of the verb; a parameter that only other
    verbs have ("build it with `keys` att") gets their flag. Paths below the working folder are
    shown from there, as the user gave them.
    """
    message = shorten_paths(message)
    if "`" not in message:
        return message
    command: Any = typer.main.get_command(app)
    verbs = {name: _flags(verb) for name, verb in command.commands.items()}
    verb = next((word for word in arguments if word in verbs), "")
    own, given = verbs.get(verb, {}), _given(command, verb, arguments)
    store = "" if given.get("store") is None else f" {shlex.quote(str(given['store']))}"

    def command_or_flag(quoted: re.Match[str]) -> str:
        name = quoted[1]
        if name in _VERBS:
            flags = _tuning_flags(given) if name == "KNNLM.tune" else ""
            return f"'knnlm {_VERBS[name]}{'' if name == 'train' else store}{flags}'"
        others = {flags[name] for flags in verbs.values() if name in flags}
        return own.get(name, others.pop() if len(others) == 1 else name)

    return re.sub(r"`([\w.]+)`", command_or_flag, message)


def _flags(verb: Any) -> dict[str, str]:
    """The flag of each parameter of a verb; the name in the usage line where it has none."""
    return {
        option.name: option.opts[0] if option.opts[0].startswith("-") else option.name.upper()
        for option in verb.params
    }


def _given(command: Any, verb: str, arguments: list[str]) -> dict[str, Any]:
    """What the parameters of a verb were given, for commands that are advised."""
    if not verb:
        return {}
    words = spread_texts(arguments)
    words = words[words.index(verb) + 1 :]
    context = command.commands[verb].make_context(verb, words, resilient_parsing=True)
    return dict(context.params)


def _tuning_flags(given: dict[str, Any]) -> str:
    """What `knnlm tune` needs to tune a datastore as another command wants it, after a space: a
    text, where the datastore has none of its own, and the same retrieval or component."""
    from knnlm.datastore import open_entries

    if given.get("store") is None:
        return ""
    named = {name: given[name] for name in ("text", "dataset", "embedded") if name in given}
    options: dict[str, Any] = {f.name: given.get(f.name) for f in dataclasses.fields(ModelOptions)}
    try:
        text = TextOptions(**named).flag_for("valid", open_entries(given["store"]))
    except KnnlmError:
        return ""
    return text + (ModelOptions(**options).flags() if "component" in given else "")


def main() -> None:
    """Run the command line of this process, and end it.

    Model libraries make a million objects when they are imported. Looking for garbage among them
    while they come, and once more when the process ends, takes more than a second.
    """
    handle_interrupts()  # of a console script that was installed before `__main__` did so
    gc.set_threshold(50_000, 20, 20)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that it cannot encode is spelled out
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    ignore_interrupts()
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; an empty one shows the help."""
    try:
        with messages_on_stderr(lambda message: in_commands(message, arguments)):
            outcome = app(
                args=spread_texts(arguments or ["--help"]), prog_name="knnlm", standalone_mode=False
            )
    except KnnlmError as error:
        print(printable(f"knnlm: {in_commands(str(error), arguments)}"), file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        outcome = _INTERRUPTED
    except BrokenPipeError:
        return 1  # whoever read our output has gone
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        reason = error.strerror or str(error)
        advice = "check the path, its permissions and the space left"
        print(printable(f"knnlm: {reason}{where}: {advice}"), file=sys.stderr)
        return 1
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(
            error, "exit_code"
        ):  # click's and typer's usage errors
            command: Any = typer.main.get_command(app)
            verb = next((f" {word}" for word in arguments if word in command.commands), "")
            message = f"knnlm: {error.format_message().rstrip('.')} (see knnlm{verb} --help)"
            print(printable(message), file=sys.stderr)
            return int(error.exit_code)
        raise
    if outcome == _INTERRUPTED:
        return say_interrupted(arguments)
    return outcome if isinstance(outcome, int) else 0
