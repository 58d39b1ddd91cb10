"""The workspace of the paper's conditions: searches as retrievals name them, the scores that only
the paper's questions need, and what is tuned once for many conditions.

    WORK/soft/<lm>[@step]          what neighbors in other documents say of a datastore's entries
    WORK/learned/…                 what was learned from a datastore (conditions/learned)

Knows retrievals; knows nothing of conditions or experiments."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from knnlm.components.knn import TargetVotes
from knnlm.datastore.table import Table
from knnlm.evaluation.tuning import TemperaturePoint
from knnlm.experiments.lms import LMs
from knnlm.experiments.searches import SearchSpec, zero_entries
from knnlm.experiments.texts import Texts
from knnlm.experiments.workspace import SearchData, Workspace
from knnlm.search.neighbors import NeighborBlocks
from knnlm.training.soft_targets import soft_targets
from knnlm_paper.measuring import scores
from knnlm_paper.measuring.base_lm import BaseLogs, Logs, base_logs
from knnlm_paper.measuring.other_states import other_state
from knnlm_paper.measuring.teaching import soft_labels, teacher_point
from knnlm_paper.measuring.temperatures import best_tau
from knnlm_paper.retrieval import Retrieval, paper_retrieval
from knnlm_paper.scales import Scale

OTHER_STATES = ("att-raw", "att-earlier")
T = TypeVar("T")


class PaperWorkspace(Workspace):
    """Does the shared work of conditions inside one folder.

    Args:
        scale: The scale of the reproduction.
        texts: Its texts.
        folder: Where the work is kept.
        largest_k: How many neighbors each search must find to serve all conditions.
    """

    def __init__(
        self,
        scale: Scale,
        texts: Texts,
        folder: Path,
        largest_k: Mapping[SearchSpec, int] | None = None,
    ) -> None:
        self.scale = scale
        self._bases: dict[tuple[str, int | None], BaseLogs] = {}
        self._one_taus: dict[tuple[str, int | None], float] = {}
        self._teachers: dict[tuple[str, int | None], TemperaturePoint] = {}
        self._tools: dict[Any, Any] = {}
        lms = LMs(
            (*scale.lms, *scale.others),
            texts,
            lambda name: folder / "lm" / name,
            lambda kind: soft_labels(self, kind),
        )
        super().__init__(
            folder,
            texts,
            lms,
            largest_k=largest_k,
            queries=scale.queries,
            other_states={name: partial(other_state, name=name) for name in OTHER_STATES},
        )

    def tool(self, make: "Callable[[PaperWorkspace], T]") -> T:
        """What some conditions share, e.g. things that were learned: made once for the
        workspace."""
        if make not in self._tools:
            self._tools[make] = make(self)
        made: T = self._tools[make]
        return made

    def plain(self, lm: str, step: int | None = None) -> SearchData:
        """att and ffn of an LM as they are."""
        return self.data(SearchSpec(lm, step))

    def neighbors_of(self, retrieval: Retrieval, split: str) -> NeighborBlocks:
        """The neighbors of a text's queries, with the retrieval's scores, best first."""
        spec, k = retrieval.spec, retrieval.k
        data = self.data(spec)
        states = data.queries(split).key(data.key)
        exact = retrieval.search == "exact"
        if not exact and retrieval.score == "exact":
            return self.neighbors(spec, split, k, "exact")
        near: NeighborBlocks = self.neighbors(spec, split, k)
        if exact and retrieval.zeros:
            zeros = zero_entries(data.store.count, retrieval.zeros)
            near = scores.with_zeros(near, states, retrieval.metric, zeros, data.store.count)
        if exact and retrieval.score == "index":
            index = self.index(replace(retrieval, search="index").spec)
            return scores.decoded(near, states, index)
        if retrieval.score == "half":
            return scores.half(near, states, data.store.key(data.key), retrieval.metric)
        return scores.flipped(near) if retrieval.score == "flipped" else near

    def votes(self, retrieval: Retrieval, split: str) -> TargetVotes:
        """The votes of the neighbors for the true tokens; a zero entry votes for token 0."""
        spec = retrieval.spec
        tokens = self.searched(spec._replace(zeros=retrieval.zeros)).targets
        queries = self.data(spec).queries(split)
        return TargetVotes(self.neighbors_of(retrieval, split), tokens, queries.targets)

    def both_votes(self, retrieval: Retrieval) -> tuple[TargetVotes, TargetVotes]:
        """Those for the validation and for the test text."""
        return self.votes(retrieval, "valid"), self.votes(retrieval, "test")

    def best_votes(self, retrieval: Retrieval, lm: Logs) -> tuple[Logs, Logs]:
        """log p_kNN of both texts' tokens, at the τ that mixes best with an LM's log p of the
        validation text."""
        valid, test = self.both_votes(retrieval)
        tau = best_tau(lm, valid).tau
        return valid.logprobs(tau), test.logprobs(tau)

    def base(self, lm: str, step: int | None = None) -> BaseLogs:
        """The LM alone, and calibrated."""
        if (lm, step) not in self._bases:
            self._bases[lm, step] = base_logs(self, lm, step, self.plain(lm, step).store.targets)
        return self._bases[lm, step]

    def one_tau(self, lm: str, step: int | None = None) -> float:
        """The best τ of the paper's retrieval, for every condition of that LM. The paper's τ = 1
        happened to be near it (section 5.2), so this is what its comparisons at one τ amount to
        where scores have another scale."""
        if (lm, step) not in self._one_taus:
            votes = self.votes(paper_retrieval(self.scale, lm, step), "valid")
            self._one_taus[lm, step] = best_tau(self.base(lm, step).valid, votes).tau
        return self._one_taus[lm, step]

    def teacher(self, lm: str, step: int | None = None) -> TemperaturePoint:
        """The τ and λ of an LM's neighbors that teach."""
        if (lm, step) not in self._teachers:
            self._teachers[lm, step] = teacher_point(self, lm, step)
        return self._teachers[lm, step]

    def soft_targets(self, lm: str, step: int | None, tau: float) -> Table:
        """What the neighbors in other documents say of every entry (att and L2, all of them looked
        at)."""
        out = self.folder / "soft" / (lm if step is None else f"{lm}@{step}")
        return soft_targets(self.plain(lm, step).store, "att", "l2", self.scale.k, tau, out)
