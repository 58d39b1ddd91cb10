"""The sections of RESULTS.md: findings, then one for each table and figure of the paper, then what
the paper did not ask."""

from collections.abc import Sequence
from dataclasses import dataclass

from knnlm.report.document import Block, Cell, Column, Paragraph, Section, Table
from knnlm_paper.claims import Findings
from knnlm_paper.claims.every import Group
from knnlm_paper.conditions import KNN
from knnlm_paper.report import figures
from knnlm_paper.report.claim_tables import topics, topics_table
from knnlm_paper.report.paper_tables import settings_table
from knnlm_paper.report.regimes import regimes_table
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval

HEADLINES = (
    "knn-helps-exact",
    "knn-beats-calibration",
    "att-beats-ffn-exact",
    "head-on-att-beats-ffn",
    "index-beats-exact",
    "own-tau-beats-tau-1-exact",
    "all-entries-beat-the-nearest-att",
    "second-lm-beats-neighbors",
    "neighbors-help-beside-memory",
    "larger-lms-gain-less",
)
"""Topics of the first table."""


@dataclass(frozen=True)
class PaperSection:
    """A table, figure or appendix of the paper: its title, label, the claims that are about it (by
    group and source) and the experiments whose CSV files have everything."""

    title: str
    label: str
    group: Group
    sources: tuple[str, ...]
    experiments: tuple[str, ...]
    figure: str = ""


SECTIONS = (
    PaperSection(
        "Table 1: which hidden state, which similarity",
        "tab:knn_baselines",
        "retrieval",
        ("section 3",),
        ("baselines",),
    ),
    PaperSection(
        "Table 2: a learned head instead of the datastore",
        "tab:input_representation",
        "substitutes",
        ("section 4.1",),
        ("substitutes",),
    ),
    PaperSection(
        "The size of the datastore",
        "fig:datastore_size",
        "retrieval",
        ("section 4.2",),
        ("sizes",),
        "sizes",
    ),
    PaperSection(
        "Table 3: approximate or exact search",
        "tab:knn_recompute",
        "retrieval",
        ("section 5.1",),
        ("recompute",),
    ),
    PaperSection(
        "The retrieval temperature",
        "fig:full_temperature",
        "retrieval",
        ("section 5.2",),
        ("temperature", "sizes"),
        "temperatures",
    ),
    PaperSection(
        "Appendix A: other LMs", "tab:knn_other_models", "retrieval", ("appendix A",), ("models",)
    ),
    PaperSection(
        "Appendix B: more embeddings for each vocabulary entry",
        "tab:softmax_bottleneck",
        "substitutes",
        ("section 4.2",),
        ("capacity",),
    ),
    PaperSection(
        "Appendix C.1: embeddings for those that need them",
        "tab:adaptive_results",
        "substitutes",
        ("appendix C.1",),
        ("adaptive",),
    ),
    PaperSection(
        "Appendix C.2: mixtures of softmaxes",
        "tab:mos_results",
        "substitutes",
        ("appendix C.2",),
        ("softmaxes",),
    ),
    PaperSection(
        "Appendix C.3: clusters", "app:clusters", "substitutes", ("appendix C.3",), ("clusters",)
    ),
    PaperSection(
        "Appendix D: which words gain from an index",
        "fig:word_type_length",
        "retrieval",
        ("appendix D",),
        ("words",),
    ),
    PaperSection(
        "Appendix E.1 and E.2: another metric, or a sparse list of tokens",
        "app:dist_metric",
        "ruled out",
        ("appendix E.1", "appendix E.2"),
        ("metric", "sparsity"),
    ),
    PaperSection(
        "Appendix E.3 and E.4: the place in the text, tokens that cannot win",
        "app:stolen_prob",
        "ruled out",
        ("appendix E.3", "appendix E.4"),
        ("location", "stolen"),
    ),
    PaperSection(
        "Appendix E.5: several LMs",
        "tab:ensembling",
        "ruled out",
        ("appendix E.5",),
        ("ensembles",),
        "ensembles",
    ),
    PaperSection(
        "Appendix E.6.1: an LM that memorizes",
        "tab:overfit",
        "ruled out",
        ("appendix E.6.1",),
        ("memorized",),
    ),
    PaperSection(
        "Appendix E.6.2: soft labels",
        "app:soft_label",
        "ruled out",
        ("appendix E.6.2",),
        ("soft-labels",),
    ),
    PaperSection(
        "Appendix E.6.3: a head that learns to be mixed",
        "app:interpolated",
        "substitutes",
        ("appendix E.6.3",),
        ("interpolated",),
    ),
)


def all_sections(results: Results, findings: Findings) -> list[Section]:
    """Those that have something to show."""
    every = [
        _section("Findings", _headlines(results, findings)),
        *(_paper_section(results, findings, section) for section in SECTIONS),
        _section("When each reason holds", _regimes(results)),
        _section("What a skeptic asks", [_of_group(findings, "skeptic")]),
        _section("The audit of the paper's code", [_of_group(findings, "audit")]),
        _section("Without a search", [*_some(figures.shares_figure(results)), *_beyond(findings)]),
        _section("The LMs", [_lms_table(results)]),
    ]
    return [section for section in every if section.blocks]


def _section(title: str, blocks: Sequence[Block]) -> Section:
    shown = tuple(b for b in blocks if not (isinstance(b, Table) and not b.rows))
    return Section(title, shown)


def _some(figure: Block | None) -> list[Block]:
    return [] if figure is None else [figure]


def _headlines(results: Results, findings: Findings) -> list[Block]:
    table = topics_table(findings, HEADLINES)
    if not table.rows:
        return []
    return [
        table,
        *_some(figures.reasons(results, findings)),
        *_some(figures.ladder(results)),
        *_some(figures.beside_figure(results, findings)),
    ]


def _paper_section(results: Results, findings: Findings, section: PaperSection) -> Section:
    of_group = findings.groups[section.group]
    about = [f for f in of_group if f.claim.source in section.sources]
    claims = topics_table(findings, topics(about))
    drawn = {
        "sizes": figures.sizes_figure,
        "temperatures": figures.temperatures_figure,
        "ensembles": figures.ensembles_figure,
    }
    blocks: list[Block] = [settings_table(results, section.label), claims]
    if section.figure:
        blocks = [*_some(drawn[section.figure](results)), *blocks]
    if not any(isinstance(block, Table) and block.rows for block in blocks):
        return _section(section.title, [])
    links = ", ".join(f"`csv/{name}.csv`" for name in section.experiments)
    return _section(
        section.title, [*blocks, Paragraph(f"Everything that was measured for it: {links}.")]
    )


def _of_group(findings: Findings, group: Group) -> Table:
    return topics_table(findings, topics(findings.groups[group]))


def _beyond(findings: Findings) -> list[Block]:
    """Which components have nine tenths of the gain, and what neighbors add to them."""
    wanted = topics(findings.groups["beyond"])
    table = topics_table(findings, wanted)
    return [table, Paragraph("Shares with intervals: `csv/shares.csv`.")] if table.rows else []


def _regimes(results: Results) -> list[Block]:
    table = regimes_table(results)
    return [*figures.regimes_figures(results), table] if table.rows else []


def _lms_table(results: Results) -> Table:
    """Every LM and checkpoint that neighbors were measured for."""
    names = (
        "LM",
        "parameters",
        "update",
        "training perplexity",
        "validation perplexity",
        "test perplexity",
        "calibrated",
        "softmax temperature",
        "unigram share",
    )
    rows = {}
    for condition in results.of_kind(KNN):
        measured = results.measurement(condition)
        lm, base = measured.lm, measured.base
        update = "" if lm.step is None else f"{lm.step:,} of {lm.steps:,}"
        rows[condition.lm] = tuple(
            map(
                Cell,
                (
                    condition.lm.name,
                    f"{lm.parameters / 1e6:.2f}M",
                    update,
                    "" if lm.train_ppl is None else f"{lm.train_ppl:.1f}",
                    "" if lm.valid_ppl is None else f"{lm.valid_ppl:.1f}",
                    f"{base.ppl:.1f}",
                    f"{base.calibrated_ppl:.1f}",
                    f"{base.calibrated_temperature:.2f}",
                    f"{base.calibrated_share:.3f}",
                ),
            )
        )
    ordered = tuple(rows[lm] for lm in sorted(rows, key=str))
    return Table(tuple(Column(name) for name in names), ordered)


def scope(results: Results) -> str:
    """What was run, in a paragraph; empty where the main condition is missing."""
    measured = results.find(KNN(exactly(paper_retrieval(results.scale))))
    if measured is None:
        return ""
    base, portions = measured.base, results.scale.portions
    source = f"its first {portions.documents} articles" if portions.documents else "all of it"
    return (
        f"Text: {results.scale.text}, {source}. The LMs are trained on "
        f"{measured.lm.train_tokens or 0:,} tokens, which are also the datastore "
        f"({measured.entries:,} entries). λ and τ are tuned on {base.valid_tokens:,} tokens of the "
        f"validation text; everything is reported on {base.tokens:,} tokens of the test text, as "
        f"many as {base.words:,} words, in {len(measured.documents.tokens)} documents. "
        f"k = {results.scale.k:,}."
    )
