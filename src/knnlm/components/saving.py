"""Reading a component from its file.

    FILE.safetensors    tensors by the names of the component's fields; header: kind, fields, about
                        parts of a mixture have their number before the name: 0.centroids, 1.weight

Each kind says itself what of it is saved (`Component.saved_state`) and is made again from that;
here is the list of kinds. No code is stored and none is run on loading.
"""

from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from knnlm.components.base import Component, SavedState
from knnlm.components.clusters import Clusters
from knnlm.components.full_datastore import FullDatastore
from knnlm.components.head import Head
from knnlm.components.knn import KNN
from knnlm.components.learned import LearnedComponent
from knnlm.components.mixture import Mixture
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes
from knnlm.components.mlp import MLP
from knnlm.datastore import Entries
from knnlm.errors import DamagedError, KnnlmError, unknown
from knnlm.tensors import read_tensors
from knnlm.typed_json import FieldError, from_json

COMPONENTS: dict[str, type[Component]] = {
    component.kind: component
    for component in (KNN, FullDatastore, Clusters, Head, MixtureOfSoftmaxes, MLP, Mixture)
}


class _Note(TypedDict):
    """The header of a file."""

    kind: str
    fields: dict[str, Any]
    about: dict[str, Any]


class Saved(NamedTuple):
    """A component and the note that was written with it."""

    component: Component
    about: dict[str, Any]


class StateLoader(NamedTuple):
    """Makes components from their saved states.

    Attributes:
        entries: The datastore, for components that retrieve from one.
    """

    entries: Entries | None = None

    def datastore(self, kind: str) -> Entries:
        """The datastore.

        Raises:
            KnnlmError: None was given.
        """
        if self.entries is None:
            raise KnnlmError(
                f"a {kind} component needs its datastore: open it through the datastore"
            )
        return self.entries

    def component(self, state: SavedState) -> Component:
        """The component that a state was taken from.

        Raises:
            UsageError: The kind is unknown.
        """
        if state.kind not in COMPONENTS:
            raise unknown("kind of component", state.kind, COMPONENTS)
        return COMPONENTS[state.kind].from_saved_state(state, self)


def load_component(
    file: Path, entries: Entries | None = None, *, checksum_required: bool = False
) -> Saved:
    """Read a component that `Component.save` wrote.

    Args:
        file: The file.
        entries: The datastore, for components that retrieve from one.
        checksum_required: Whether to refuse a file without a checksum, as earlier versions wrote
            them. A component that is kept with a datastore has one in its record.

    Raises:
        DamagedError: It is not what was written, or its tensors and fields do not make a component,
            or not one that fits the datastore.
        UsageError: Its kind is unknown.
    """
    tensors, header = read_tensors(file, checksum_required=checksum_required)
    try:
        note = from_json(_Note, header)
        state = SavedState(note["kind"], tensors, note["fields"])
        component = StateLoader(entries).component(state)
        component.check_parts()
        if entries is not None:
            _check_fit(component, entries)
        return Saved(component, note["about"])
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
        reason = f" ({error})" if isinstance(error, FieldError) else ""
        raise DamagedError(
            f"the parts of {file} do not make a component{reason}: make it again"
        ) from error


def _check_fit(component: Component, entries: Entries) -> None:
    """Raise a FieldError unless a component reads hidden states of a datastore and predicts its
    vocabulary."""
    for part in component.parts if isinstance(component, Mixture) else (component,):
        if part.vocab_size != entries.vocab_size:
            raise FieldError("the vocabulary", f"has {part.vocab_size} entries")
        width = sum(entries.key(key).type.width for key in part.keys)
        if isinstance(part, LearnedComponent) and part.width != width:
            raise FieldError("the width", f"is {part.width}, not {width}")
