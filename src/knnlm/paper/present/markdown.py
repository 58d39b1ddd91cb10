"""Sections as Markdown. Knows nothing of what they say."""

from collections.abc import Sequence

from knnlm.paper.present.content import Figure, Section, Table


def markdown(title: str, sections: Sequence[Section], figures: str) -> str:
    """The whole file; figures are linked from the folder `figures`."""
    return (
        f"# {title}\n\nGenerated from the records by `knnlm reproduce`; edit nothing here.\n\n"
        + body(sections, figures, "##")
    )


def body(sections: Sequence[Section], figures: str, heading: str) -> str:
    """Sections under headings of that level."""
    parts: list[str] = []
    for section in sections:
        parts.append(f"{heading} {section.title}")
        for part in section.parts:
            if isinstance(part, Table):
                parts.append(_table(part))
                parts += [part.note] if part.note else []
            elif isinstance(part, Figure):
                parts.append(f"![{part.caption}]({figures}/{part.name}.svg)\n\n*{part.caption}*")
            else:
                parts.append(part)
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    lines = [
        _line(table.columns),
        "|" + "|".join("---:" if kind == "numbers" else "---" for kind in table.kinds()) + "|",
    ]
    return "\n".join([*lines, *(_line(row) for row in table.rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
