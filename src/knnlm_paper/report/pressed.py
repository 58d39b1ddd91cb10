"""Perplexity against the number of clusters that a store is pressed to, up to all of its rows."""

import math

import numpy as np

from knnlm.report.document import Figure
from knnlm_paper.conditions import KNN, FullDatastore
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.report.figures import Line, plot
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval


def pressed_figure(results: Results) -> Figure | None:
    """Clusters of att and ffn over the calibrated LM, beside exact search for the nearest."""
    lines = []
    for state in STATES:
        points = []
        for size in (*results.scale.learning.fewer, *results.scale.learning.clusters):
            names = results.learning_seeds(clusters_of(state, size))
            ppls = [
                p
                for name in names
                if math.isfinite(p := results.measurement(name).on_calibrated.ppl)
            ]
            if ppls:
                points.append(
                    (
                        results.scale.clusters("main", size),
                        float(np.mean(ppls)),
                        (min(ppls), max(ppls)),
                    )
                )
        whole = results.find(FullDatastore(state=state))
        if points and whole is not None and math.isfinite(ppl := whole.on_calibrated.ppl):
            points.append((whole.entries, ppl, (ppl, ppl)))
        if points:
            lines.append(Line(f"clusters of {state}", *map(list, zip(*points, strict=True))))
    knn = results.find(KNN(exactly(paper_retrieval(results.scale))))
    if not lines or knn is None:
        return None
    base, level = knn.base.calibrated_ppl, knn.on_calibrated.ppl
    caption = (
        "Test perplexity over the calibrated LM against the number of clusters that the store is "
        "pressed to, each at "
        "its own τ; the last point of a line is the store itself, all of its rows voting. Bars "
        "span the seeds. Dotted: "
        f"the nearest {paper_retrieval(results.scale).k:,} rows (exact search on att)."
    )
    return plot(
        "clusters",
        caption,
        lines,
        "clusters",
        log=True,
        base=base,
        word="the calibrated LM",
        dotted=(level, "the nearest"),
    )
