"""The kinds of component that can be learned from a datastore, as data.

A new kind is a class in components/, listed in saving.py there, a name in `Kind` and a line in
`KINDS` here, a module that trains it in initial.py, and its name in the help of `--kind`
(cli/distill.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from knnlm.datastore import Entries
from knnlm.defaults import CLUSTERS_PER_TOKEN, ENTRIES_PER_CLUSTER, MAX_CLUSTERS, MLP_WIDTHS
from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.hidden_states import KEYS
from knnlm.similarity import Metric, checked_metric

Kind = Literal["head", "mixture-of-softmaxes", "mlp", "clusters"]


@dataclass(frozen=True, kw_only=True)
class LearnedKind:
    """What is known of a kind before anything is learned.

    Attributes:
        largest: The largest size.
        default_size: The size for a datastore and the width of its hidden states.
        metrics: How it may compare a hidden state with what it learned; the first is the default.
        learning_rate: The rate that was best on validation text for att ("Learning rates" in
            docs/results/laptop).
        reads_every_key: Whether it reads att and ffn together, instead of one of them.
    """

    largest: int
    default_size: Callable[[Entries, int], int]
    metrics: tuple[Metric, ...]
    learning_rate: float
    reads_every_key: bool = False


def _default_clusters(entries: Entries, width: int) -> int:
    by_text = min(CLUSTERS_PER_TOKEN * entries.vocab_size, entries.count // ENTRIES_PER_CLUSTER)
    return max(1, min(by_text, MAX_CLUSTERS))


KINDS: dict[Kind, LearnedKind] = {
    "clusters": LearnedKind(
        largest=1 << 24,
        default_size=_default_clusters,
        metrics=("l2", "ip"),
        learning_rate=1e-4,
    ),
    "head": LearnedKind(
        largest=64,
        default_size=lambda entries, width: 1,
        metrics=("ip", "l2"),
        learning_rate=1e-4,
    ),
    "mixture-of-softmaxes": LearnedKind(
        largest=16,
        default_size=lambda entries, width: 2,
        metrics=("ip",),
        learning_rate=3e-5,
    ),
    "mlp": LearnedKind(
        largest=1 << 16,
        default_size=lambda entries, width: MLP_WIDTHS * width,
        metrics=("ip",),
        learning_rate=3e-5,
        reads_every_key=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class ComponentSpec:
    """Which component to learn.

    `size` is n of a head, R of a mixture of softmaxes, the inner width of an MLP, or the number of
    clusters.

    Raises:
        UsageError: The size is out of range, or the kind reads one hidden state and several are
            given.
    """

    kind: Kind = "head"
    keys: tuple[str, ...] = ("att",)
    size: int = 1
    metric: Metric = "ip"
    own_embedding: bool = True
    """Whether a mixture of softmaxes or an MLP may change its copy of W_sm."""

    def __post_init__(self) -> None:
        kind = KINDS[checked_kind(self.kind)]
        if not 1 <= self.size <= kind.largest:
            raise UsageError(
                f"size {self.size} of {self.kind} is out of range: choose 1 to {kind.largest}"
            )
        if not kind.reads_every_key and len(self.keys) != 1:
            raise UsageError(f"a {self.kind} component reads one hidden state: choose att or ffn")


def checked_kind(name: str) -> Kind:
    """`name` as a kind of component, or a UsageError that lists them."""
    for kind in KINDS:
        if kind == name:
            return kind
    raise unknown("kind of component", name, KINDS)


def component_spec(
    entries: Entries, kind: str, key: str | None, size: int | None, metric: str | None
) -> ComponentSpec:
    """Which component to learn from a datastore; what is None is the default of its kind.

    Raises:
        UsageError: The kind does not have such a key or metric.
        KnnlmError: The datastore does not hold the hidden states that the kind reads.
    """
    name = checked_kind(kind)
    known = KINDS[name]
    chosen = known.metrics[0] if metric is None else checked_metric(metric)
    if chosen not in known.metrics:
        raise UsageError(
            f"a {name} component compares by {' or '.join(known.metrics)} only: leave out `metric`"
        )
    if known.reads_every_key:
        if key is not None:
            raise UsageError(f"an {name} component reads att and ffn: leave out `key`")
        if not set(KEYS) <= set(entries.keys):
            raise KnnlmError(
                f"an {name} component reads att and ffn, and {entries.path} holds only "
                f"{' and '.join(entries.keys)}: build it with `keys` att,ffn"
            )
    width = entries.key(entries.keys[0]).type.width
    return ComponentSpec(
        kind=name,
        keys=tuple(KEYS) if known.reads_every_key else (key or entries.keys[0],),
        size=known.default_size(entries, width) if size is None else size,
        metric=chosen,
    )
