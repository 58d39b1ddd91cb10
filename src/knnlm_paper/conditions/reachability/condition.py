"""Stolen probabilities: which tokens can no state make the LM's most probable (appendix E.4)?"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from knnlm.errors import KnnlmError
from knnlm.experiments.base_lms import MAIN, AboutLM, Checkpoint
from knnlm.experiments.plan import Costs, Step
from knnlm_paper.conditions.base import PaperCondition
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace

_ROUNDS = 10  # in which the tokens that are left become fewer
_EXAMPLES = 100


@dataclass(frozen=True, kw_only=True)
class ReachabilityMeasurement:
    """Decided for every token of the vocabulary."""

    lm: AboutLM
    vocabulary: int
    unreachable: int
    linear_programs: int
    """Tokens that needed one."""
    examples: tuple[str, ...]
    """The first of the unreachable ones."""


@dataclass(frozen=True)
class Reachability(PaperCondition[ReachabilityMeasurement]):
    """Which tokens no state can make the LM's most probable one. Nothing is searched or read."""

    measurement_type = ReachabilityMeasurement
    reads_texts = False
    lm: Checkpoint = MAIN

    @property
    def name(self) -> str:
        """Of the LM."""
        return f"{self.lm.name}_{self.kind}"

    @property
    def label(self) -> str:
        """The LM."""
        return f"{self.lm.name}: tokens that no state can make the most probable"

    def with_lm(self, lm: str) -> Self:
        """Tokens of another LM."""
        return replace(self, lm=self.lm._replace(name=lm))

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """All tokens against all others, in fp64, until each is shown to be reachable; linear
        programs for a few are not counted."""
        shape = scale.shape(self.lm.name)
        work = _ROUNDS * 2 * 2 * shape.vocab_size**2 * shape.width
        label = f"{self.lm.name}: {shape.vocab_size:,} tokens of {shape.width}"
        return [Step(self.kind, label, work, 0), self.measuring_step(scale, ())]

    def measure(self, workspace: "PaperWorkspace") -> ReachabilityMeasurement:
        """Of the LM's output embedding."""
        import numpy as np

        from knnlm.hidden_states.output_head import output_embedding
        from knnlm_paper.conditions.reachability.reachable import reachable_tokens

        model = workspace.lms.model(*self.lm)
        head = output_embedding(model.model)
        if getattr(head, "bias", None) is not None:
            raise KnnlmError(
                f"the output embedding of {self.lm.name} has a bias: which tokens can be chosen is "
                "not known then"
            )
        decided = reachable_tokens(head.weight.detach().cpu().numpy())
        missing = np.flatnonzero(~decided.tokens)
        examples = model.tokenizer.convert_ids_to_tokens(missing[:_EXAMPLES].tolist())
        return ReachabilityMeasurement(
            lm=workspace.lms.about(*self.lm),
            vocabulary=len(decided.tokens),
            unreachable=len(missing),
            linear_programs=decided.linear_programs,
            examples=tuple(examples),
        )
