"""Options that belong together, declared once and taken by several verbs.

A verb names a group as a parameter; `by_option` spells the group out for typer:

    def evaluate(store: StorePath, text: TextOptions, model: ModelOptions, json: Json = False): …

is `knnlm eval STORE --text … --dataset … --embedded --component … --json`.
"""

import dataclasses
import functools
import inspect
import logging
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from knnlm.cli.options import Device, Model
from knnlm.errors import UsageError
from knnlm.progress import log
from knnlm.ranges import check_k, check_lambda, check_temperature

if TYPE_CHECKING:
    from knnlm.api import KNNLM
    from knnlm.datastore import Entries
    from knnlm.text import Split, Text


@dataclass(frozen=True)
class TextOptions:
    """How a text is named on the command line."""

    text: Annotated[
        list[Path] | None,
        typer.Option(
            "--text",
            metavar="PATH",
            help="File or folder of text (repeatable). A WikiText folder has splits.",
        ),
    ] = None
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", help="Hugging Face data set, NAME[:CONFIG][@REVISION], streamed."
        ),
    ] = None
    embedded: Annotated[
        bool,
        typer.Option(
            "--embedded",
            help="The built-in text: docstrings and language reference of this Python.",
        ),
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="List every file that is skipped, and why.")
    ] = False

    def __post_init__(self) -> None:
        if self.verbose:
            log.setLevel(logging.DEBUG)

    def named(self) -> "Text":
        """The text that --text, --dataset or --embedded names: exactly one of them."""
        named = self.optional()
        if named is None:
            raise UsageError("name one text: --text PATH…, --dataset NAME or --embedded")
        return named

    def optional(self) -> "Text | None":
        """The same, or None where none is named."""
        from knnlm.text import HubDataset, PythonDocs, check_paths

        if sum([bool(self.text), self.dataset is not None, self.embedded]) > 1:
            raise UsageError("two texts are named: give --text, --dataset or --embedded alone")
        if self.embedded:
            return PythonDocs()
        if self.dataset is not None:
            return HubDataset.from_argument(self.dataset)
        check_paths(self.text or [])
        return self.text or None

    def flag_for(self, split: "Split", entries: "Entries") -> str:
        """The flag that names a split for a datastore's next command, after a space.

        Empty where the datastore knows its own text; the same `--text` where that has moved;
        `--text` with a word for it where it has no such split.
        """
        from knnlm.api import has_own_text

        if has_own_text(entries, split):
            return ""
        if self.embedded:
            return " --embedded"
        if self.text and has_own_text(entries, split, self.text):
            return f" --text {shlex.join(map(str, self.text))}"
        return f" --text {split.upper()}"


@dataclass(frozen=True)
class EvaluationTextOptions(TextOptions):
    """How an evaluation text is named."""

    allow_overlap: Annotated[
        bool,
        typer.Option(
            "--allow-overlap",
            help="Take a text although it is in the datastore; it retrieves itself.",
        ),
    ] = False


@dataclass(frozen=True)
class ModelOptions:
    """Which component of a datastore is mixed with its model, and how it retrieves."""

    component: Annotated[
        str | None,
        typer.Option(
            "--component",
            help="A component of the datastore instead of a search (see knnlm distill).",
        ),
    ] = None
    key: Annotated[str | None, typer.Option("--key", help="Which hidden state: att or ffn.")] = None
    metric: Annotated[str | None, typer.Option("--metric", help="l2 or ip (inner product).")] = None
    index: Annotated[
        str | None,
        typer.Option("--index", help="Name of an index of the datastore (see knnlm info)."),
    ] = None
    exact: Annotated[bool, typer.Option("--exact", help="Search exactly, without an index.")] = (
        False
    )
    score: Annotated[
        str | None,
        typer.Option("--score", help="index (the index's own scores) or exact (recomputed)."),
    ] = None
    model: Model = None
    device: Device = None

    def open(
        self, store: Path, settings: "SettingOptions | None" = None, *, announce: bool = False
    ) -> "KNNLM":
        """The datastore's kNN-LM with these options; `announce` says so before it takes seconds."""
        entries = self._check(store, settings)
        if announce:
            log.info(f"opening {store} with {self.model or entries.model_source} …")
        from knnlm.api import KNNLM

        given: dict[str, Any] = dataclasses.asdict(self)
        given |= {} if settings is None else dataclasses.asdict(settings)
        return KNNLM(store, **{**given, "component": self.component or "knn"})

    def flags(self) -> str:
        """The same options for another command of the datastore, after a space; the device apart,
        which is no part of what is tuned."""
        names = ("component", "key", "metric", "index", "score", "model")
        values = {name: getattr(self, name) for name in names}
        given = [f" --{name} {shlex.quote(value)}" for name, value in values.items() if value]
        return "".join(given) + (" --exact" if self.exact else "")

    def _check(self, store: Path, settings: "SettingOptions | None") -> "Entries":
        """Say what is wrong with the datastore or the settings before model libraries are imported,
        which takes seconds; the datastore's entries."""
        from knnlm.api import retrieval_wishes, settings_of
        from knnlm.components import component_record
        from knnlm.datastore import open_entries

        if settings is not None:
            settings.check()
        entries = open_entries(store)
        named = {name: getattr(self, name) for name in ("key", "metric", "index", "exact", "score")}
        wishes = retrieval_wishes(entries, **named)
        no_search = settings is not None and settings.k is None and not any(named.values())
        if self.component is not None and no_search:  # else that is the mistake to tell
            component_record(entries, self.component)
        if self.component is None and settings is not None and None in (settings.lam, settings.tau):
            settings_of(entries, "knn", wishes, **dataclasses.asdict(settings))
        return entries


@dataclass(frozen=True)
class SettingOptions:
    """Settings that are used instead of the tuned ones."""

    k: Annotated[
        int | None, typer.Option("--k", help="Neighbors, instead of the tuned number.")
    ] = None
    lam: Annotated[float | None, typer.Option("--lambda", help="λ instead of the tuned one.")] = (
        None
    )
    tau: Annotated[float | None, typer.Option("--tau", help="τ instead of the tuned one.")] = None

    def check(self) -> None:
        """Raise a UsageError where a number is out of range."""
        if self.k is not None:
            check_k(self.k)
        if self.lam is not None:
            check_lambda(self.lam)
        if self.tau is not None:
            check_temperature(self.tau)


def by_option(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb as typer takes it: every field of a group is an option of its own."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {n: h for n, h in hints.items() if dataclasses.is_dataclass(h)}

    @functools.wraps(verb)
    def spelled_out(**given: Any) -> None:
        for name, group in groups.items():
            options = {field.name: given.pop(field.name) for field in dataclasses.fields(group)}
            given[name] = group(**options)
        verb(**given)

    names = [field.name for group in groups.values() for field in dataclasses.fields(group)]
    assert len(names) == len(set(names)), f"groups of {verb.__name__} share an option"
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(verb).parameters.items():
        if name in groups:
            of_group = get_type_hints(groups[name], include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=of_group[field.name],
                )
                for field in dataclasses.fields(groups[name])
            ]
        else:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            )
    described: Any = spelled_out
    described.__signature__ = inspect.Signature(parameters)
    described.__annotations__ = {p.name: p.annotation for p in parameters}
    return spelled_out
