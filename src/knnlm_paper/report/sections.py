"""The sections of RESULTS.md: findings, then one for each table and figure of the paper, then what
the paper did not ask."""

from collections.abc import Sequence
from dataclasses import dataclass

from knnlm.errors import unknown
from knnlm.report.document import Block, Cell, Column, Paragraph, Section, Table
from knnlm_paper.claims import Findings
from knnlm_paper.claims.every import Group
from knnlm_paper.conditions import KNN
from knnlm_paper.experiments import all_experiments
from knnlm_paper.report import figures
from knnlm_paper.report.claim_tables import topics, topics_table
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.paper_tables import SETTINGS, settings_table
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
    group and source) and the experiments whose CSV files have everything. A topic belongs to the
    source of its first claim."""

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
        "Appendix C.3: clusters", "appendix C.3", "substitutes", ("appendix C.3",), ("clusters",)
    ),
    PaperSection(
        "Appendix D: which words gain from an index",
        "fig:token_analysis_len",
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
        "app:interpolated_loss",
        "substitutes",
        ("appendix E.6.3", "beyond"),
        ("interpolated",),
    ),
    PaperSection(
        "More about appendix E: neighbors beside other LMs",
        "",
        "ruled out",
        ("beyond",),
        ("ensembles", "memorized", "soft-labels", "both-reasons", "metric"),
    ),
)
WHOLE_GROUPS: dict[Group, str] = {
    "skeptic": "What a skeptic asks",
    "audit": "The audit of the paper's code",
    "beyond": "Without a search",
}
"""Groups of claims that have a section of their own."""


def all_sections(evidence: Evidence, sections: Sequence[PaperSection] = SECTIONS) -> list[Section]:
    """Those that have something to show.

    Args:
        evidence: What is shown.
        sections: Those about the paper.

    Raises:
        UsageError: A section names a label, source or experiment that does not exist.
        ValueError: A topic or a table of the paper has no section.
    """
    results, findings = evidence.results, evidence.findings
    check_sections(evidence, sections)
    every = [
        _section("Findings", _headlines(evidence)),
        *(_paper_section(evidence, section) for section in sections),
        _section("When each reason holds", _regimes(evidence)),
        _section(WHOLE_GROUPS["skeptic"], [_of_group(findings, "skeptic")]),
        _section(WHOLE_GROUPS["audit"], [_of_group(findings, "audit")]),
        _section(
            WHOLE_GROUPS["beyond"], [*_some(figures.shares_figure(evidence)), *_beyond(findings)]
        ),
        _section("The LMs", [_lms_table(results)]),
    ]
    return [section for section in every if section.blocks]


def check_sections(evidence: Evidence, sections: Sequence[PaperSection]) -> None:
    """That sections name what exists, and that nothing is left out: a typo must not make lines
    vanish. Raises as `all_sections` says."""
    findings, scale = evidence.findings, evidence.results.scale
    left = {group: _by_source(findings, group) for group in findings.groups}
    tables = set(SETTINGS)
    labels_of = {experiment.name: experiment.labels for experiment in all_experiments(scale)}
    for section in sections:
        if wrong := [name for name in section.experiments if name not in labels_of]:
            raise unknown("experiment", wrong[0], labels_of)
        labels = [label for name in section.experiments for label in labels_of[name]]
        if section.label and section.label not in labels:
            raise unknown("label", section.label, labels)
        tables.discard(section.label)
        for source in section.sources:
            if source not in left[section.group]:
                raise unknown("source", source, left[section.group])
            del left[section.group][source]
    if tables:
        raise ValueError(f"no section has the table {min(tables)}")
    for group in left.keys() - WHOLE_GROUPS.keys():
        for source, members in left[group].items():
            raise ValueError(f"no section has {members[0]} (group {group}, source {source})")


def _by_source(findings: Findings, group: Group) -> dict[str, list[str]]:
    """The topics of a group, by the source of their first claim."""
    first: dict[str, str] = {}
    for finding in findings.groups[group]:
        first.setdefault(finding.claim.topic, finding.claim.source)
    sources: dict[str, list[str]] = {}
    for topic, source in first.items():
        sources.setdefault(source, []).append(topic)
    return sources


def _section(title: str, blocks: Sequence[Block]) -> Section:
    shown = tuple(b for b in blocks if not (isinstance(b, Table) and not b.rows))
    return Section(title, shown)


def _some(figure: Block | None) -> list[Block]:
    return [] if figure is None else [figure]


def _headlines(evidence: Evidence) -> list[Block]:
    table = topics_table(evidence.findings, HEADLINES)
    if not table.rows:
        return []
    return [
        table,
        *_some(figures.reasons(evidence)),
        *_some(figures.ladder(evidence)),
        *_some(figures.beside_figure(evidence)),
    ]


def _paper_section(evidence: Evidence, section: PaperSection) -> Section:
    by_source = _by_source(evidence.findings, section.group)
    about = [topic for source in section.sources for topic in by_source[source]]
    claims = topics_table(evidence.findings, about)
    drawn = {
        "sizes": figures.sizes_figure,
        "temperatures": figures.temperatures_figure,
        "ensembles": figures.ensembles_figure,
    }
    blocks: list[Block] = [settings_table(evidence.results, section.label), claims]
    if section.figure:
        blocks = [*_some(drawn[section.figure](evidence)), *blocks]
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


def _regimes(evidence: Evidence) -> list[Block]:
    table = regimes_table(evidence.regimes)
    return [*figures.regimes_figures(evidence), table] if table.rows else []


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
    return Table(tuple(Column(name) for name in names), ordered, "Perplexities are per token.")


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
