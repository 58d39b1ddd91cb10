"""Tables of base LMs: what neighbours do for each, and every LM that a row used."""

from knnlm.experiments.base_lms import AboutLM
from knnlm.report.document import Table
from knnlm_paper.conditions import KNN, Ensemble
from knnlm_paper.conditions.ensemble.condition import OtherLM
from knnlm_paper.expected import published
from knnlm_paper.experiments import models
from knnlm_paper.measurement import BaseNumbers
from knnlm_paper.report.formats import make_table, number, percent
from knnlm_paper.report.tables import changes, setting
from knnlm_paper.results import Results


def models_table(results: Results) -> Table:
    """Appendix A: ours and the paper's LMs."""
    rows = []
    for row in models.experiment(results.scale).conditions:
        assert isinstance(row, KNN)
        r = results.find(row)
        if r is None:
            continue
        rows.append(
            (
                f"{row.retrieval.lm}: {setting(row.retrieval)}",
                f"{r.lm.parameters / 1e6:.2f}M",
                number(r.base.ppl),
                number(r.own_tau.ppl),
                number(r.base.ppl - r.own_tau.ppl),
                *changes(r, r.own_tau.ppl),
            )
        )
    for theirs in published()["tab:knn_other_models"]:
        assert theirs.base is not None
        rows.append(
            (
                f"paper: {theirs.name}",
                "",
                number(theirs.base),
                number(theirs.cells["interp"]),
                number(theirs.cells["gain"]),
                percent(theirs.change),
                "",
            )
        )
    return make_table(
        ("row", "parameters", "base LM", "kNN-LM", "gain", "vs base", "vs calibrated"), tuple(rows)
    )


def lms_table(results: Results) -> Table:
    """Every base LM and checkpoint that a row used."""
    lms: dict[tuple[str, int, bool], tuple[AboutLM, BaseNumbers | OtherLM]] = {}
    for ensemble in results.of_kind(Ensemble):
        for other in results.measurement(ensemble).others:
            lms[other.name, other.lm.step or 0, other.kept is None] = other.lm, other
    for row in results.of_kind(KNN):
        r = results.measurement(row)
        lms[row.lm.name, r.lm.step or 0, row.lm.step is None] = r.lm, r.base
    rows = []
    for name, step, best in sorted(lms):
        lm, alone = lms[name, step, best]
        trained = ("", "", "")
        if lm.steps is not None and lm.valid_ppl is not None:
            update = f"{lm.step:,} of {lm.steps:,}" + (" (best on validation)" if best else "")
            trained = (
                update,
                "" if lm.train_ppl is None else number(lm.train_ppl, 1),
                number(lm.valid_ppl, 1),
            )
        rows.append(
            (
                name,
                f"{lm.parameters / 1e6:.2f}M",
                *trained,
                number(alone.ppl, 1),
                number(alone.calibrated_ppl, 1),
                f"{alone.calibrated_temperature:.2f}",
                f"{alone.calibrated_share:.3f}",
            )
        )
    columns = (
        "LM",
        "parameters",
        "update",
        "training PPL",
        "validation PPL",
        "test PPL",
        "calibrated",
        "its T",
        "its unigram share",
    )
    return make_table(columns, tuple(rows))
