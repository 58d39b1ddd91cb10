"""A list of tokens instead of neighbors: which ones, how they are scored, and what is measured."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from knnlm.experiments.base_lms import MAIN, AboutLM, Checkpoint
from knnlm.experiments.plan import Costs, Step
from knnlm_paper.conditions.base import PaperCondition
from knnlm_paper.measurement import BaseNumbers, Documents, TauPoint, VotesPoint
from knnlm_paper.naming import unusual
from knnlm_paper.retrieval import Retrieval
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm.components.knn import TargetVotes
    from knnlm_paper.measuring.workspace import PaperWorkspace


@dataclass(frozen=True, kw_only=True)
class TokenListMeasurement:
    """What a list does for an LM, and for it calibrated."""

    lm: AboutLM
    base: BaseNumbers
    coverage: float
    """The share of test tokens that are on their list."""
    tau_1: VotesPoint
    own_tau: VotesPoint
    on_calibrated: TauPoint
    documents: Documents


@dataclass(frozen=True, kw_only=True)
class TokenList(PaperCondition[TokenListMeasurement]):
    """A list of tokens instead of neighbors, scored by the LM or by their output embeddings."""

    measurement_type = TokenListMeasurement
    lm: Checkpoint = MAIN
    retrieved: Retrieval | None = None
    """Whose neighbors' tokens; None: the LM's own likeliest."""
    k: int
    """How many tokens, or neighbors."""
    score: Literal["logits", "distance"] = "logits"
    """`logits`: the LM's own; `distance`: -‖W_sm[w] - h‖², h the state that is retrieved by."""
    duplicates: bool = True
    """Whether a token counts as often as it was retrieved."""

    def __post_init__(self) -> None:
        if self.score == "distance" and self.retrieved is None:
            raise ValueError("distances to output embeddings are those of retrieved tokens")

    @property
    def name(self) -> str:
        """The LM, whose tokens, and what is unusual."""
        whose = "likeliest" if self.retrieved is None else f"retrieved-{self.retrieved.state}"
        more = unusual(self, ("lm", "retrieved"))
        return "_".join([self.lm.name, self.kind, whose, *more])

    @property
    def label(self) -> str:
        """Which tokens, and how they are scored."""
        if self.retrieved is None:
            words = f"the LM's own {self.k:,} likeliest tokens"
        else:
            score = "the LM's logits" if self.score == "logits" else "L2 to W_sm"
            words = f"tokens of {self.k:,} neighbors by {self.retrieved.state}, scored by {score}"
            words += "" if self.duplicates else ", each once"
        return words if self.lm.name == "main" else f"{self.lm.name}: {words}"

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """The one whose tokens are listed, if they are not the LM's own."""
        return () if self.retrieved is None else (self.retrieved,)

    def with_lm(self, lm: str) -> Self:
        """Tokens of another LM, or of its neighbors."""
        retrieved = None if self.retrieved is None else replace(self.retrieved, lm=lm)
        return replace(self, lm=self.lm._replace(name=lm), retrieved=retrieved)

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """A pass over the list for each τ."""
        return [self.measuring_step(scale, [r.k for r in self.retrievals] or [self.k])]

    def measure(self, workspace: "PaperWorkspace") -> TokenListMeasurement:
        """The list at τ = 1 and at its own τ, and over the calibrated LM."""
        from knnlm_paper.measuring.votes import measure_votes

        data = workspace.plain(*self.lm)
        model = workspace.lms.model(*self.lm).model
        votes = self._votes(workspace, model, "valid"), self._votes(workspace, model, "test")
        voted = measure_votes(workspace, self.lm, data, votes, {})
        return TokenListMeasurement(
            lm=workspace.lms.about(*self.lm),
            base=voted.base,
            coverage=voted.coverage,
            **voted.points,
            on_calibrated=voted.on_calibrated,
            documents=voted.documents,
        )

    def _votes(self, workspace: "PaperWorkspace", model: Any, split: str) -> "TargetVotes":
        """The votes of a list's tokens, each for itself, for the true tokens."""
        import numpy as np

        from knnlm.components.knn import TargetVotes
        from knnlm.hidden_states.output_head import output_embedding
        from knnlm_paper.conditions.token_list import lists

        data = workspace.plain(*self.lm)
        queries = data.queries(split)
        if self.retrieved is None or self.score == "logits":
            scores = lists.logits(model, queries.key("ffn").all())
        else:
            w_sm = output_embedding(model).weight.detach().float().cpu().numpy()
            scores = lists.distances(w_sm, queries.key(self.retrieved.state).all())
        if self.retrieved is None:
            listed = lists.likeliest(scores, queries.count, self.k)
        else:
            near = workspace.neighbors_of(self.retrieved, split)
            listed = lists.relisted(near, data.store.targets, scores, self.duplicates)
        tokens = np.arange(data.store.vocab_size, dtype=np.int32)
        return TargetVotes(listed, tokens, queries.targets)
