"""The sections of the report: which tables, figures and findings stand under which heading."""

from dataclasses import replace
from typing import Any

from knnlm.report.document import Block, Section
from knnlm_paper.claims import FIELDS
from knnlm_paper.conditions import KNN, FullDatastore, NeighborCounts, WordTypes
from knnlm_paper.experiments import ensembling, ruled_out, sceptic
from knnlm_paper.experiments import words as words_recipe
from knnlm_paper.experiments.audit import precision, sign, zeros
from knnlm_paper.experiments.experiment import Experiment
from knnlm_paper.report import (
    figures,
    regimes,
    shares,
    substitutes,
    tables,
    words,
)
from knnlm_paper.report import ruled_out as present
from knnlm_paper.report.checks import Findings, measured
from knnlm_paper.report.finding_tables import findings_table, survival_table
from knnlm_paper.report.formats import section
from knnlm_paper.report.pressed import pressed_figure
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval

_UNITS = (
    "τ has the unit of the scores, so τ = 1 means another peakiness for every LM, layer and width. "
    "In units of the "
    "spread of the neighbours' scores (the median over queries of best minus median score) "
    "temperatures compare."
)
_PROBED = (
    "The index of each size is the default for its rows, always with 32 lists probed: a small "
    "store has fewer lists, "
    "so a larger share of it is searched. The paper probed 32 of 4096 at every size. Recall at "
    "each size, one draw:"
)


def substitutes_sections(results: Results, found: Findings) -> list[Section]:
    """What can be had without a search."""
    drawn = [f for f in (shares.shares_figure(results),) if f is not None]
    curve = [f for f in (substitutes.capacity_figure(results),) if f is not None]
    clusters = [f for f in (pressed_figure(results),) if f is not None]
    return [
        section(
            "Without a search: the paper's claims about substitutes",
            [
                words.counts(found.learned),
                findings_table(measured(found.learned)),
                *drawn,
            ]
            if measured(found.learned)
            else [],
        ),
        section("Table 2: a second softmax", [substitutes.heads_table(results)]),
        section("More embeddings for each word", [*curve, substitutes.capacity_table(results)]),
        section("Embeddings for the words that need them", [substitutes.adaptive_table(results)]),
        section("Mixtures of softmaxes", [substitutes.softmaxes_table(results)]),
        section(
            "Clusters, and learning to be mixed",
            [*clusters, substitutes.others_table(results)],
        ),
        section(
            "The best without a search",
            [
                substitutes.beyond_table(results),
                findings_table(measured(found.beyond)),
            ],
        ),
        section("Learning rates", [substitutes.rates_table(results)]),
    ]


def ruled_out_sections(results: Results, found: Findings) -> list[Section]:
    """Section 6 and appendix E."""
    drawn = [f for f in (present.ensembles_figure(results),) if f is not None]
    placed = [f for f in (present.location_figure(results),) if f is not None]
    return [
        section(
            "Hypotheses that the paper ruled out",
            [findings_table(measured(found.ruled_out))],
        ),
        section(
            "Another metric, or a sparse list of words",
            [
                present.listed_table(
                    results,
                    (
                        *ruled_out.metric(results.scale).conditions,
                        *ruled_out.sparsity(results.scale).conditions,
                    ),
                )
            ],
        ),
        section("The place in the text", [*placed, present.location_table(results)]),
        section("Words that cannot be chosen", [present.reach_table(results)]),
        section(
            "Several LMs",
            [
                *drawn,
                present.ensembles_table(
                    results, ensembling.ensembles(results.scale).conditions, "tab:ensembling"
                ),
            ],
        ),
        section(
            "An LM that memorises",
            [
                present.ensembles_table(
                    results, ensembling.memorized(results.scale).conditions, "tab:overfit"
                )
            ],
        ),
        section(
            "Soft labels",
            [present.ensembles_table(results, ensembling.soft_labels(results.scale).conditions)],
        ),
        section(
            "Two reasons at once",
            [
                substitutes.table(
                    results,
                    [ensembling.two_stores(results.scale), ensembling.with_head(results.scale)],
                )
            ],
        ),
    ]


def baselines_part(results: Results) -> list[Block]:
    """Table 1 at each of the three temperatures."""
    found: list[Block] = []
    for field, at in FIELDS.items():
        table = tables.baselines_table(results, field)
        found += [f"With {at}:", table] if table.rows else []
    return found


def sizes_part(results: Results) -> list[Block]:
    """How large the store is."""
    drawn: list[Block] = [figures.sizes(results, field) for field in ("one_tau", "own_tau")]
    table = tables.sizes_table(results)
    return [*drawn, _PROBED, table] if table.rows else drawn


def peaky_part(results: Results) -> list[Block]:
    """Perplexity against τ."""
    drawn: list[Block] = [
        figures.temperatures(results, fraction) for fraction in (results.scale.small, 1.0)
    ]
    table = tables.temperatures_table(results)
    return [*drawn, _UNITS, table] if table.rows else []


def words_part(results: Results) -> list[Block]:
    """Appendix D."""
    (row,) = words_recipe.experiment(results.scale).conditions
    assert isinstance(row, WordTypes)
    drawn = (
        figures.words(results, row, attribute) for attribute in ("length", "forward", "backward")
    )
    return [f for f in drawn if f is not None]


def regimes_part(results: Results) -> list[Block]:
    """When each reason holds."""
    drawn = (regimes.progress(results), regimes.width(results))
    return [*(f for f in drawn if f is not None), regimes.table(results)]


def sceptic_part(results: Results, found: Findings) -> list[Block]:
    """How many neighbours, which approximation, fewer dimensions."""
    scale = results.scale
    rows = [r for r in sceptic.neighbor_counts(scale).conditions if isinstance(r, NeighborCounts)]
    whole = [r for r in sceptic.full_datastore(scale).conditions if isinstance(r, FullDatastore)]
    arm = paper_retrieval(scale)
    indexes = [(f"{f}, {n} probed", replace(arm, factory=f, nprobe=n)) for f, n in scale.factories]
    indexes += [("the paper's kind of index", arm), ("exact", exactly(arm))]
    reduced = [
        (f"{w} principal components, exact", replace(exactly(arm), width=w))
        for w in results.scale.components
    ]
    return [
        findings_table(measured(found.sceptic)),
        figures.neighbours(results, rows, whole),
        tables.counts_table(results, rows, whole),
        figures.approximations(results),
        tables.arms_table(results, [*indexes, *reduced]),
    ]


def audit_part(results: Results, found: Findings) -> list[Block]:
    """Confounds, one by one."""
    return [
        "F7: which of the paper's conclusions, drawn at one τ for all, survive when every arm has "
        "its own τ. The "
        "paper's τ = 1 was near the best for its own arm and not for others; here that best τ is "
        "another number, so "
        "both are shown.",
        survival_table(found.paper),
        words.counts(found.audit),
        findings_table(measured(found.audit)),
        "F1: zero rows.",
        tables.arms_table(results, _named(zeros(results.scale), "zeros")),
        "F4: the sign of ffn with IP.",
        tables.arms_table(results, _named(sign(results.scale), "")),
        "F6: precision of real scores.",
        tables.arms_table(results, _named(precision(results.scale), "")),
        "The layer or its LayerNorm.",
        tables.arms_table(results, tables.norm_arms(results.scale)),
        "F2 and F3: where λ comes from, and perplexity per token or per word. The latter is the "
        "former to the power of "
        "the tokens in a word, so every comparison keeps its direction; only its size differs.",
        tables.units_table(results),
    ]


def _named(recipe: Experiment, field: str) -> list[tuple[str, Any]]:
    arms = [r.retrieval for r in recipe.conditions if isinstance(r, KNN)]
    extra = (lambda a: f", {getattr(a, field):.0%} {field}") if field else (lambda _: "")
    named = [(f"{a.state} {a.metric.upper()}, {tables.setting(a)}{extra(a)}", a) for a in arms]
    return [(name if arm.lm == "main" else f"{arm.lm}: {name}", arm) for name, arm in named]
