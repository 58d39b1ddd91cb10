"""The workspace of the paper's arms: searches as arms name them, and the scores that only the
paper's questions need.

    WORK/soft/<lm>[@step]          what neighbours elsewhere say of a store's rows
    WORK/learned/…                 what was learned from a store (apprentice.py)

Knows arms; knows nothing of recipes, and chooses no τ or λ."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from knnlm.components.knn import TargetVotes
from knnlm.datastore.table import Table
from knnlm.experiments.derive import zero_entries
from knnlm.experiments.lms import LMs
from knnlm.experiments.searches import SearchSpec
from knnlm.experiments.texts import Texts
from knnlm.experiments.workspace import SearchData, Workspace
from knnlm.search.neighbors import NeighborBlocks
from knnlm.training.language_model import Teacher
from knnlm.training.soft_targets import soft_targets
from knnlm_paper import scores
from knnlm_paper.other_states import other_state
from knnlm_paper.rows import Arm
from knnlm_paper.scales import Scale

OTHER_STATES = ("att-raw", "att-earlier")


def search_of(arm: Arm) -> SearchSpec:
    """The search that an arm needs. Exact neighbours among zero rows follow from those without
    them."""
    exact = arm.mask == "exact"
    return SearchSpec(
        lm=arm.lm,
        step=arm.step,
        state=arm.state,
        metric=arm.metric,
        exact=exact,
        factory=None if exact else arm.factory,
        nprobe=None if exact else arm.nprobe,
        fraction=arm.fraction,
        draw=arm.draw,
        zeros=0.0 if exact else arm.zeros,
        width=arm.width,
    )


class Workshop(Workspace):
    """Does the shared work of arms inside one folder; `counts` says how many neighbours each search
    must find, and `teachers` what an LM learns that learns from another."""

    def __init__(
        self,
        scale: Scale,
        texts: Texts,
        folder: Path,
        counts: Mapping[SearchSpec, int],
        teachers: "Callable[[Workshop, Any], Teacher]",
    ) -> None:
        self.scale = scale
        super().__init__(
            folder,
            texts,
            LMs(
                (*scale.lms, *scale.others),
                texts,
                lambda name: folder / "lm" / name,
                lambda kind: teachers(self, kind),
            ),
            largest_k=counts,
            queries=scale.eval_rows,
            other_states={name: partial(other_state, name=name) for name in OTHER_STATES},
        )

    def plain(self, lm: str, step: int | None) -> SearchData:
        """att and ffn of an LM as they are."""
        return self.data(SearchSpec(lm, step))

    def neighbors_of(self, arm: Arm, split: str) -> NeighborBlocks:
        """The arm's neighbours of a split's queries, with the arm's scores, best first."""
        spec = search_of(arm)
        m = self.data(spec)
        states = m.queries(split).key(m.key)
        if arm.mask == "faiss" and arm.score == "real":
            return self.neighbors(spec, split, arm.k, "exact")
        found: NeighborBlocks = self.neighbors(spec, split, arm.k)
        if arm.mask == "exact" and arm.zeros:
            zeros = zero_entries(m.store.count, arm.zeros)
            found = scores.with_zeros(found, states, arm.metric, zeros, m.store.count)
        if arm.mask == "exact" and arm.score == "faiss":
            return scores.decoded(found, states, self.index(search_of(replace(arm, mask="faiss"))))
        if arm.score == "half":
            return scores.half(found, states, m.store.key(m.key), arm.metric)
        return scores.flipped(found) if arm.score == "flipped" else found

    def votes(self, arm: Arm, split: str) -> TargetVotes:
        """The votes of the arm's neighbours for the true tokens; a zero row votes for token 0."""
        spec = search_of(arm)
        tokens = self.searched(spec._replace(zeros=arm.zeros)).targets
        return TargetVotes(
            self.neighbors_of(arm, split), tokens, self.data(spec).queries(split).targets
        )

    def elsewhere(self, lm: str, step: int | None, tau: float) -> Table:
        """What the neighbours in other documents say of every stored row (att and L2, all of them
        looked at)."""
        out = self.folder / "soft" / (lm if step is None else f"{lm}@{step}")
        return soft_targets(self.plain(lm, step).store, "att", "l2", self.scale.k, tau, out)
