"""Sums of log p over the documents of the test text."""

import numpy as np

from knnlm.experiments.workspace import SearchData
from knnlm_paper.measurement import Documents
from knnlm_paper.measuring.base_lm import BaseLogs, Logs


class DocumentSums:
    """Collects the points of a measurement.

    Args:
        data: Whose test text it is.
        base: The LM alone and calibrated, the first two points.
    """

    def __init__(self, data: SearchData, base: BaseLogs) -> None:
        self._documents = data.test.document_numbers
        self._sums: dict[str, tuple[float, ...]] = {}
        self.add("base", base.test)
        self.add("calibrated", base.calibrated_test)

    def add(self, point: str, logprobs: Logs) -> None:
        """A further point; left out where it holds a token impossible, as JSON has no infinity."""
        if np.isfinite(logprobs).all():
            totals = np.bincount(self._documents, weights=logprobs)
            self._sums[point] = tuple(round(float(total), 6) for total in totals)

    def collected(self) -> Documents:
        """All points that were added."""
        tokens = tuple(np.bincount(self._documents).tolist())
        return Documents(tokens=tokens, log_likelihood=self._sums)
