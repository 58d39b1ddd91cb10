"""One way of retrieving neighbors, as data: every symbol of the equation has a value, and a name
follows from them.

    P = (1-λ)·softmax(W_sm·h_sm) + λ·M·softmax(mask-to-k(W_ds ⊗ h_ds)/τ)

A `Retrieval` fixes the base LM (`lm`, `step`), h_ds (`state`), W_ds (`fraction`, `draw`, `zeros`,
`width`), ⊗ (`metric`), mask-to-k (`search`, `k`, `factory`, `nprobe`) and the scores inside the
softmax (`score`). λ and τ are not part of it: conditions tune them."""

from dataclasses import dataclass, replace
from typing import Literal

from knnlm.experiments.base_lms import Checkpoint
from knnlm.experiments.searches import SearchSpec
from knnlm.similarity import Metric
from knnlm_paper.naming import unusual
from knnlm_paper.scales import Scale

State = Literal["att", "ffn", "ffn-normed", "att-raw", "att-earlier"]
Search = Literal["exact", "index"]
Score = Literal["exact", "index", "half", "flipped"]
STATES: dict[State, str] = {
    "att": "att",
    "att-raw": "att before its LayerNorm",
    "att-earlier": "att of the block before",
    "ffn": "ffn",
    "ffn-normed": "ffn after a LayerNorm",
}
"""The states that are searched by, in words."""
_SEARCHES: dict[Search, str] = {"exact": "exact search", "index": "index"}
_SCORES: dict[Score, str] = {
    "exact": "exact scores",
    "index": "scores of the index",
    "half": "exact scores in fp16",
    "flipped": "flipped scores",
}


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """One way of retrieving, for one base LM."""

    lm: str = "main"
    step: int | None = None
    """An update of the LM's training at which it was kept; None is the best on validation."""
    state: State = "att"
    """`att`, `ffn`; `ffn-normed`: LayerNorm of ffn without gain or bias; `att-raw`: att before its
    LayerNorm; `att-earlier`: att of the block before the last."""
    metric: Metric = "l2"
    search: Search = "index"
    """How neighbors are found: exactly, or approximately by an index of FAISS (the paper's real
    and FAISS mask)."""
    score: Score = "index"
    """`exact`: similarities to the stored states in fp32 (the paper's real score); `index`: to the
    states as the index decodes them (its FAISS score); `half`: exact, in fp16 as the paper's code
    recomputes them (F6); `flipped`: FAISS's L2 distances taken for similarities, the sign of the
    ffn-IP row if it was run as committed (F4)."""
    k: int = 1024
    factory: str | None = None
    """FAISS factory string of the index; None is the default for so many entries."""
    nprobe: int = 32
    fraction: float = 1.0
    """Of the datastore's entries."""
    draw: int = 0
    """Which random part, where `fraction` is below one."""
    zeros: float = 0.0
    """Share of all-zero entries in the datastore, holding token 0, as in the paper's (F1)."""
    width: int | None = None
    """States reduced to so many principal components."""

    def __post_init__(self) -> None:
        if self.zeros and (self.score == "half" or (self.search, self.score) == ("exact", "index")):
            raise ValueError(
                f"score {self.score} is not known for zero entries with {_SEARCHES[self.search]}"
            )

    @property
    def name(self) -> str:
        """The choices that every retrieval has, then what is unusual about it; scores that are not
        the search's own are."""
        always = (self.lm, self.state, self.metric, self.search)
        score = [] if self.score == self.search else [f"score-{self.score}"]
        more = unusual(self, ("lm", "state", "metric", "search", "score"))
        return "_".join([*always, *score, *more])

    @property
    def label(self) -> str:
        """What is retrieved and how, in words."""
        parts = [STATES[self.state], self.metric.upper(), self.search_label]
        parts += [f"{self.factory}, {self.nprobe} probed"] if self.factory else []
        parts += [f"{self.fraction:.0%} of the datastore"] if self.fraction < 1 else []
        parts += [f"draw {self.draw}"] if self.draw else []
        parts += [f"{self.zeros:.0%} zero entries"] if self.zeros else []
        parts += [f"{self.width} principal components"] if self.width else []
        words = ", ".join(parts)
        if self.step is not None:
            return f"{self.lm} at update {self.step:,}: {words}"
        return words if self.lm == "main" else f"{self.lm}: {words}"

    @property
    def search_label(self) -> str:
        """How it is searched and scored, in words."""
        words = _SEARCHES[self.search]
        return words if self.score == self.search else f"{words}, {_SCORES[self.score]}"

    @property
    def checkpoint(self) -> Checkpoint:
        """The base LM, and the update at which it was kept."""
        return Checkpoint(self.lm, self.step)

    @property
    def spec(self) -> SearchSpec:
        """The search that it needs. Exact neighbors among zero entries follow from those without
        them."""
        exact = self.search == "exact"
        return SearchSpec(
            lm=self.lm,
            step=self.step,
            state=self.state,
            metric=self.metric,
            exact=exact,
            factory=None if exact else self.factory,
            nprobe=None if exact else self.nprobe,
            fraction=self.fraction,
            draw=self.draw,
            zeros=0.0 if exact else self.zeros,
            width=self.width,
        )


def paper_retrieval(scale: Scale, lm: str = "main", step: int | None = None) -> Retrieval:
    """The paper's: att, L2, neighbors and scores of an index. Every other one is this with
    something changed."""
    return Retrieval(lm=lm, step=step, k=scale.k, factory=scale.factory)


def exactly(retrieval: Retrieval) -> Retrieval:
    """The same with exact search and exact scores."""
    return replace(retrieval, search="exact", score="exact")
