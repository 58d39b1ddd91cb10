"""What one measurement is, as data: every symbol of the equation has a value, and a name follows
from them.

    P = (1-λ)·softmax(W_sm·h_sm) + λ·M·softmax(mask-to-k(W_ds ⊗ h_ds)/τ)

An Arm fixes the base LM (`lm`, `step`), h_ds (`state`), W_ds (`fraction`, `draw`, `zeros`,
`width`), ⊗ (`metric`), mask-to-k (`mask`, `k`, `factory`, `nprobe`) and the scores inside the
softmax (`score`). λ and τ are not part of it: each arm is measured at τ = 1, as the paper's code
fixes it, at the best τ of the paper's own arm, and at its own best τ, λ fitted each time."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from knnlm.similarity import Metric

State = Literal["att", "ffn", "ffn-normed", "att-raw", "att-earlier"]
Mask = Literal["exact", "faiss"]
Scoring = Literal["real", "faiss", "half", "flipped"]
Kind = Literal["embeddings", "softmaxes", "network", "clusters"]
Sizing = Literal["equal", "frequency", "loss"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way of retrieving, for one base LM."""

    lm: str = "main"
    step: int | None = None
    """An update of the LM's training at which it was kept; None is the best on validation."""
    state: State = "att"
    """`att`, `ffn`; `ffn-normed`: LayerNorm of ffn without gain or bias; `att-raw`: att before its
    LayerNorm; `att-earlier`: att of the block before the last."""
    metric: Metric = "l2"
    mask: Mask = "faiss"
    score: Scoring = "faiss"
    """`real`: similarities to the stored states in fp32; `faiss`: to the states as the index
    decodes them; `half`: real, in fp16 as the paper's code recomputes them (F6); `flipped`: FAISS's
    L2 distances taken for similarities, the sign of the ffn-IP row if it was run as committed
    (F4)."""
    k: int = 1024
    factory: str | None = None
    nprobe: int = 32
    fraction: float = 1.0
    draw: int = 0
    """Which random subsample, where `fraction` is below one."""
    zeros: float = 0.0
    """Share of all-zero rows in the store, holding token 0, as in the paper's (F1)."""
    width: int | None = None
    """States reduced to so many principal components."""

    def __post_init__(self) -> None:
        if self.zeros and (self.score == "half" or (self.mask, self.score) == ("exact", "faiss")):
            raise ValueError(
                f"score {self.score} is not known for zero rows with an {self.mask} mask"
            )

    @property
    def name(self) -> str:
        """What the arm is, for people and file names: the choices every arm has, then what is
        unusual about it."""
        always = ("lm", "state", "metric", "mask", "score")
        return "_".join([*(str(getattr(self, name)) for name in always), *_unusual(self, always)])


@dataclass(frozen=True)
class OfArm:
    """A row about one arm."""

    arm: Arm

    @property
    def name(self) -> str:
        """The arm's, and what is measured of it."""
        return f"{self.arm.name}_{type(self).__name__.lower()}"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What must be retrieved."""
        return (self.arm,)

    @property
    def lm(self) -> tuple[str, int | None]:
        """The base LM, and the update at which it was kept."""
        return (self.arm.lm, self.arm.step)


@dataclass(frozen=True)
class Evaluate(OfArm):
    """The numbers of an arm at each of the three temperatures."""

    @property
    def name(self) -> str:
        """The arm's."""
        return self.arm.name


@dataclass(frozen=True)
class Temperatures(OfArm):
    """Perplexity of an arm over the paper's grid of τ and as far beyond as its optimum lies, λ
    refitted at each."""


@dataclass(frozen=True)
class Counts(OfArm):
    """Perplexity of an arm for several k, each at τ = 1 and at its own τ; the arm's own k is the
    largest."""

    ks: tuple[int, ...]


@dataclass(frozen=True)
class Location(OfArm):
    """Whether the LM's loss and what the arm gains depend on the place in the window and in the
    document."""


@dataclass(frozen=True)
class Words:
    """Word by word, how much more often one arm helps than another, beside what kind of word it
    is."""

    exact: Arm
    approximate: Arm
    least: int
    """Words that occur less often in the test text are left out."""

    @property
    def name(self) -> str:
        """Of both arms."""
        return f"words_{self.exact.name}_against_{self.approximate.mask}"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What must be retrieved."""
        return (self.exact, self.approximate)

    @property
    def lm(self) -> tuple[str, int | None]:
        """The base LM, and the update at which it was kept."""
        return (self.exact.lm, self.exact.step)


@dataclass(frozen=True, kw_only=True)
class Learned:
    """Something learned from the rows of the store in the place of the neighbours
    (training/initial.py)."""

    of: str = "main"
    step: int | None = None
    state: Literal["att", "ffn", "both"] = "att"
    kind: Kind = "embeddings"
    size: float = 1
    """n embeddings a word, R softmaxes, the inner width of a network; of clusters, how many for
    each word, which may be a fraction."""
    metric: Metric = "ip"
    sizing: Sizing = "equal"
    """Which words have how many of the nV embeddings."""
    own_embedding: bool = True
    fitted: bool = True
    """Whether clusters are learned further after k-means."""
    lam: float | None = None
    """λ of the interpolated loss; None is plain cross-entropy."""
    soft: float = 0.0
    """Share of the loss that neighbours in other documents teach."""
    seed: int = 0

    @property
    def name(self) -> str:
        """The LM and the state, and what is unusual."""
        return "_".join([self.of, self.state, "learned", *_unusual(self, ("of", "state"))])

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Nothing is retrieved."""
        return ()

    @property
    def lm(self) -> tuple[str, int | None]:
        """The base LM, and the update at which it was kept."""
        return (self.of, self.step)

    @property
    def keys(self) -> tuple[str, ...]:
        """The states that it reads."""
        return ("att", "ffn") if self.state == "both" else (self.state,)


@dataclass(frozen=True)
class Combined:
    """Several substitutes and neighbours of one LM, mixed with it, all weights fitted together."""

    parts: tuple[Learned, ...] = ()
    neighbours: tuple[Arm, ...] = ()

    def __post_init__(self) -> None:
        if (
            len({part.lm for part in self.parts} | {(arm.lm, arm.step) for arm in self.neighbours})
            != 1
        ):
            raise ValueError("what is combined must be of one LM")

    @property
    def name(self) -> str:
        """Of all parts; of neighbours their state, metric and mask."""
        of, _ = self.lm
        names = [part.name.removeprefix(f"{of}_").replace("_learned", "") for part in self.parts]
        names += [f"{arm.state}_{arm.metric}_{arm.mask}" for arm in self.neighbours]
        return "+".join([f"{of}_combined_{names[0]}", *names[1:]])

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What must be retrieved."""
        return self.neighbours

    @property
    def lm(self) -> tuple[str, int | None]:
        """The base LM, and the update at which it was kept."""
        return self.parts[0].lm if self.parts else (self.neighbours[0].lm, self.neighbours[0].step)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A list of words in the place of neighbours, scored by the LM or by their output embeddings
    (listed.py)."""

    of: str = "main"
    retrieved: Arm | None = None
    """Whose neighbours' words; None: the LM's own likeliest."""
    k: int
    """How many words, or neighbours."""
    score: Literal["logits", "distance"] = "logits"
    """`logits`: the LM's own; `distance`: -‖W_sm[w] - h‖², h the state by which the arm
    retrieves."""
    duplicates: bool = True
    """Whether a word counts as often as it was retrieved."""

    @property
    def name(self) -> str:
        """The LM, whose words, and what is unusual."""
        whose = "likeliest" if self.retrieved is None else f"retrieved-{self.retrieved.state}"
        return "_".join([self.of, "listed", whose, *_unusual(self, ("of", "retrieved"))])

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What must be retrieved."""
        return () if self.retrieved is None else (self.retrieved,)

    @property
    def lm(self) -> tuple[str, int | None]:
        """The base LM."""
        return (self.of, None)


@dataclass(frozen=True)
class OfLM:
    """A row about one LM, for which nothing is searched."""

    of: str = "main"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Nothing is retrieved."""
        return ()

    @property
    def lm(self) -> tuple[str, int | None]:
        """The base LM."""
        return (self.of, None)


@dataclass(frozen=True)
class Unmasked(OfLM):
    """All rows of the store vote: the equation without its mask."""

    state: Literal["att", "ffn"] = "att"
    metric: Metric = "l2"

    @property
    def name(self) -> str:
        """Of the LM, the state and the metric."""
        return f"{self.of}_{self.state}_{self.metric}_unmasked"


@dataclass(frozen=True)
class Reach(OfLM):
    """Which words no state can make the LM's most probable one."""

    @property
    def name(self) -> str:
        """Of the LM."""
        return f"{self.of}_reach"


@dataclass(frozen=True)
class Ensemble:
    """The main LM mixed with further LMs, and with neighbours of its own, all weights fitted
    together."""

    others: tuple[tuple[str, int | None], ...] = ()
    """(LM, update) pairs."""
    neighbours: tuple[Arm, ...] = ()

    @property
    def name(self) -> str:
        """Of all parts."""
        names = [lm + (f"-step-{step}" if step is not None else "") for lm, step in self.others]
        names += [f"{arm.state}_{arm.metric}_{arm.mask}" for arm in self.neighbours]
        return f"main_ensemble_{'+'.join(names)}"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What must be retrieved."""
        return self.neighbours

    @property
    def lm(self) -> tuple[str, int | None]:
        """The base LM."""
        return ("main", None)


Row = (
    Evaluate
    | Temperatures
    | Counts
    | Location
    | Words
    | Learned
    | Combined
    | Listed
    | Reach
    | Ensemble
    | Unmasked
)


def lms_of(row: Row) -> tuple[tuple[str, int | None], ...]:
    """Every LM that a row needs, its base LM last."""
    return (*row.others, row.lm) if isinstance(row, Ensemble) else (row.lm,)


@dataclass(frozen=True)
class Recipe:
    """The rows that answer one question."""

    name: str
    title: str
    labels: tuple[str, ...]
    """The paper's \\label of each table, figure and appendix that this covers, or the number of an
    appendix that has none; nothing where the paper has no such experiment."""
    rows: tuple[Row, ...]


def _unusual(row: Any, always: tuple[str, ...]) -> list[str]:
    """Fields that are not as usual, as `field-value`."""
    found = [(field, getattr(row, field.name)) for field in fields(row) if field.name not in always]
    return [f"{field.name}-{_plain(value)}" for field, value in found if value != field.default]


def _plain(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isalnum() or c == "." else "-" for c in text)
