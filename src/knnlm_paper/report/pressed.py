"""Perplexity against the number of clusters that a store is pressed to, up to all of its rows."""

import numpy as np

from knnlm.report.document import Figure
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.experiments.clusters import pressed
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.findings import Records
from knnlm_paper.report.figures import Line, plot
from knnlm_paper.report.substitutes import seeds_of
from knnlm_paper.rows import Unmasked
from knnlm_paper.scales import Scale


def pressed_figure(records: Records, scale: Scale) -> Figure | None:
    """Clusters of att and ffn over the calibrated LM, beside exact search for the nearest."""
    lines = []
    for state in STATES:
        points = []
        for size in (*scale.learning.fewer, *scale.learning.clusters):
            names = seeds_of(records, pressed(state, size))
            ppls = [
                p
                for name in names
                if (p := records[name]["results"]["on_calibrated"]["ppl"]) is not None
            ]
            if ppls:
                points.append(
                    (scale.clusters("main", size), float(np.mean(ppls)), (min(ppls), max(ppls)))
                )
        whole = records.get(Unmasked(state=state).name)
        if (
            points
            and whole is not None
            and (ppl := whole["results"]["on_calibrated"]["ppl"]) is not None
        ):
            points.append((whole["results"]["rows"], ppl, (ppl, ppl)))
        if points:
            lines.append(Line(f"clusters of {state}", *map(list, zip(*points, strict=True))))
    knn = records.get(exactly(paper_arm(scale)).name)
    if not lines or knn is None:
        return None
    base, level = knn["results"]["base"]["calibrated_ppl"], knn["results"]["on_calibrated"]["ppl"]
    caption = (
        "Test perplexity over the calibrated LM against the number of clusters that the store is "
        "pressed to, each at "
        "its own τ; the last point of a line is the store itself, all of its rows voting. Bars "
        "span the seeds. Dotted: "
        f"the nearest {paper_arm(scale).k:,} rows (exact search on att)."
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
