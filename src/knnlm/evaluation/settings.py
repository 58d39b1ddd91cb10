"""Tuned settings: λ and τ of a component, kept with the datastore for whoever comes after.

    DATASTORE/tuned.json    one entry for each component, and for each way of retrieving

One format for all components: the kNN component is named "knn" and has a retrieval besides, a
stored one is named by its own name.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from knnlm import formats
from knnlm.components import KNN_NAME
from knnlm.datastore import Entries, note_kept
from knnlm.errors import UsageError
from knnlm.files import fingerprint, finite, read_json, write_json
from knnlm.locks import write_lock
from knnlm.search import Retrieval, RetrievalFields
from knnlm.stored_fields import (
    Count,
    Perplexity,
    PlainName,
    Share,
    Temperature,
    check_fields,
    damaged_field,
)
from knnlm.typed_json import FieldError, from_json

SETTINGS_FILE = "tuned.json"
FORMAT = 3
JSON_NAMES = {"lam": "lambda", "tau": "temperature", "tau_units": "temperature_units"}
"""What fields are called in JSON where that is not their name here."""


class _CalibratedFields(TypedDict):
    """The calibrated LM by the names of its fields here; a perplexity of ∞ is null."""

    softmax_temperature: Temperature
    unigram_share: Share
    lam: Share
    tau: Temperature
    tokens: Count
    base_ppl: Perplexity | None
    calibrated_ppl: Perplexity | None
    calibrated_interp_ppl: Perplexity | None


class _TunedFields(TypedDict):
    """Settings by the names of their fields here; a number that is not known is null."""

    component: PlainName
    retrieval: RetrievalFields | None
    lam: Share
    tau: Temperature
    tau_units: NotRequired[Temperature | None]
    base_ppl: NotRequired[Perplexity | None]
    interp_ppl: NotRequired[Perplexity | None]
    tokens: NotRequired[Count]
    text: NotRequired[str]
    calibrated: NotRequired[dict[str, Any] | None]


class _SettingsFile(TypedDict):
    settings: dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class CalibratedSettings:
    """The calibrated LM, and λ and τ of a component that is mixed with it instead of the base LM.

    It is the control of an evaluation: what it gains, nothing was retrieved for. All is fitted on
    some tokens of the validation text, evenly spaced, and perplexities are of those tokens.
    """

    softmax_temperature: float
    unigram_share: float
    lam: float
    tau: float
    tokens: int
    base_ppl: float
    calibrated_ppl: float
    calibrated_interp_ppl: float

    def as_json(self) -> dict[str, Any]:
        """All fields by their names in JSON."""
        return finite({JSON_NAMES.get(name, name): value for name, value in vars(self).items()})

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "CalibratedSettings":
        """Settings from what `as_json` gave.

        Args:
            fields: All fields by their names in JSON.

        Returns:
            The settings.

        Raises:
            UsageError: One of them is missing, or cannot be.
        """
        try:
            return _calibrated(fields)
        except FieldError as error:
            raise _no_settings(error) from error

    def __str__(self) -> str:
        return (
            f"softmax temperature {self.softmax_temperature:.3g}, unigram share "
            f"{self.unigram_share:.3f}"
        )

    def validation(self, other: str) -> str:
        """What they gave on tokens of the validation text, in a few words.

        Args:
            other: What the calibrated LM is mixed with, as in "neighbors".
        """
        alone = formats.change(self.calibrated_ppl / self.base_ppl)
        further = formats.change(self.calibrated_interp_ppl / self.calibrated_ppl)
        return (
            f"calibrated LM, without retrieval ({self}): {alone}; {other} on top of it: "
            f"{further} (on {self.tokens:,} of the tokens)"
        )


@dataclass(frozen=True, kw_only=True)
class TunedSettings:
    """λ and τ of one component, and what they gave on the validation text.

    Example:
        >>> settings = TunedSettings(component="head", lam=0.25, tau=1.0)
        >>> print(settings)
        component head, λ 0.250, τ 1
        >>> TunedSettings.from_json(settings.as_json()).lam
        0.25
    """

    component: str = KNN_NAME
    """ "knn", or the name of a component that is kept with the datastore."""
    retrieval: Retrieval | None = None
    """How the kNN component retrieves; None for every other component."""
    lam: float
    tau: float
    tau_units: float = math.nan
    """τ in units of the component's own scale: of the neighbors' score spread for kNN."""
    base_ppl: float = math.nan
    interp_ppl: float = math.nan
    tokens: int = 0
    text: str = ""
    """Fingerprint of the validation text's description; empty where nothing was tuned."""
    calibrated: CalibratedSettings | None = None
    """The control, where it was fitted."""

    def as_json(self) -> dict[str, Any]:
        """All fields by their names in JSON; a number that is not known is null."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields["retrieval"] = None if self.retrieval is None else self.retrieval.as_json()
        fields["calibrated"] = None if self.calibrated is None else self.calibrated.as_json()
        return finite({JSON_NAMES.get(name, name): value for name, value in fields.items()})

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "TunedSettings":
        """Settings from what `as_json` gave, also as format 1 spelled it.

        Args:
            fields: All fields by their names in JSON.

        Returns:
            The settings; a number that is null is NaN.

        Raises:
            UsageError: One of them is missing, or cannot be.
        """
        try:
            return _tuned(fields)
        except FieldError as error:
            raise _no_settings(error) from error

    def __str__(self) -> str:
        numbers = f"λ {self.lam:.3f}, τ {self.tau:.4g}"
        if self.retrieval is None:
            return f"component {self.component}, {numbers}"
        units = f" ({self.tau_units:.3g} × the spread of the neighbors' scores)"
        return f"{self.retrieval}, {numbers}{units if math.isfinite(self.tau_units) else ''}"

    @property
    def validation(self) -> str:
        """What they gave on the validation text, in a few words."""
        before, after = formats.perplexity(self.base_ppl), formats.perplexity(self.interp_ppl)
        change = formats.change(self.interp_ppl / self.base_ppl)
        return f"validation perplexity {before} → {after} ({change}) on {self.tokens:,} tokens"

    def describes(self, component: str, wanted: Mapping[str, Any]) -> bool:
        """Whether these are settings of that component with every given field of a retrieval.

        Args:
            component: "knn", or the name of a component.
            wanted: Fields of `Retrieval` and the values that they must have.

        Returns:
            True if all agree; False if fields are given and the component retrieves nothing.
        """
        if self.component != component:
            return False
        if self.retrieval is None:
            return not wanted
        return all(getattr(self.retrieval, name) == value for name, value in wanted.items())


def save_settings(entries: Entries, settings: TunedSettings) -> None:
    """Keep settings; earlier ones of the same component and retrieval (k apart) are replaced."""
    file = entries.path / SETTINGS_FILE
    with write_lock(entries.path, patience=10):
        kept = {} if not file.is_file() else _read(entries)
        name = _name(settings)
        kept.pop(name, None)  # the newest comes last
        kept[name] = settings
        fields = {name: each.as_json() for name, each in kept.items()}
        write_json(file, {"format": FORMAT, "settings": fields})
        note_kept(entries.path, [file])


def load_settings(entries: Entries) -> list[TunedSettings]:
    """All settings: those of the text that their component was tuned on last first, the best ahead.

    Perplexities of different texts do not compare, so settings compete only with those of their own
    text; and a component that is made does not change which settings of the neighbors are best.
    """
    if not (entries.path / SETTINGS_FILE).is_file():
        return []
    every = list(_read(entries).values())
    latest = {settings.component: settings.text for settings in every}  # the newest comes last
    return sorted(
        every,
        key=lambda settings: (settings.text != latest[settings.component], settings.interp_ppl),
    )


def choose_settings(
    entries: Entries, component: str = KNN_NAME, **wanted: Any
) -> TunedSettings | None:
    """The best settings of a component that agree with every given field of `Retrieval`."""
    every = load_settings(entries)
    return next((each for each in every if each.describes(component, wanted)), None)


def forget_settings(entries: Entries, component: str) -> None:
    """Drop the settings of a component, because another one takes its name."""
    file = entries.path / SETTINGS_FILE
    if file.is_file():
        with write_lock(entries.path, patience=10):
            kept = {n: s for n, s in _read(entries).items() if s.component != component}
            fields = {name: each.as_json() for name, each in kept.items()}
            write_json(file, {"format": FORMAT, "settings": fields})


def _read(entries: Entries) -> dict[str, TunedSettings]:
    file, remedy = entries.path / SETTINGS_FILE, "delete it and tune again"
    fields = check_fields(_SettingsFile, read_json(file, newest_format=FORMAT), file, remedy)
    try:
        every = [_tuned(each) for each in fields["settings"].values()]
    except FieldError as error:
        raise damaged_field(file, error, remedy) from error
    return {_name(settings): settings for settings in every}


def _tuned(fields: Mapping[str, Any]) -> TunedSettings:
    """Settings from JSON; a FieldError if they are none."""
    given = {"component": KNN_NAME, **_by_own_names(fields)}
    known = _without_null(from_json(_TunedFields, given), TunedSettings)
    if (known["component"] == KNN_NAME) != (known["retrieval"] is not None):
        raise FieldError("retrieval", "is for another component than 'knn'")
    if known["retrieval"] is not None:
        known["retrieval"] = Retrieval.from_json(known["retrieval"])
    if known.get("calibrated") is not None:
        known["calibrated"] = _calibrated(known["calibrated"])
    return TunedSettings(**known)


def _calibrated(fields: Mapping[str, Any]) -> CalibratedSettings:
    """The control from JSON; a FieldError if it is none."""
    known = from_json(_CalibratedFields, _by_own_names(fields), "calibrated")
    return CalibratedSettings(**_without_null(known, CalibratedSettings))


def _no_settings(error: FieldError) -> UsageError:
    return UsageError(f"these are no settings ({error}): give what `as_json` gave")


def _by_own_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by their names here, whichever they were spelled with."""
    names = {in_json: name for name, in_json in JSON_NAMES.items()}
    return {names.get(name, name): value for name, value in fields.items()}


def _without_null(fields: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Those that a class has; a number that is null is NaN."""
    return {
        f.name: math.nan if f.type is float and fields[f.name] is None else fields[f.name]
        for f in dataclasses.fields(kind)
        if f.name in fields
    }


def _name(settings: TunedSettings) -> str:
    """What replaces what: the same component, key, metric, index and score."""
    if settings.retrieval is None:
        return settings.component
    fields = settings.retrieval.as_json()
    return fingerprint({name: value for name, value in fields.items() if name != "k"})
