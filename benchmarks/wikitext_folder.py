"""The articles of a file in WikiText layout as a folder, one file an article.

    .venv/bin/python benchmarks/wikitext_folder.py wiki.train.tokens wikipedia --characters 1400000

Takes articles from the beginning of the file until their characters are reached. The second text of
docs/adapt.md was made with it.
"""

import argparse
import re
from pathlib import Path

_TITLE = re.compile(r"^ = (?!=)(.+?) = *$", re.MULTILINE)


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--characters", type=int, required=True)
    given = parser.parse_args()
    text = given.file.read_text(encoding="utf-8")
    titles = list(_TITLE.finditer(text))
    given.folder.mkdir(parents=True)
    written = 0
    for number, title in enumerate(titles):
        if written >= given.characters:
            break
        end = titles[number + 1].start() if number + 1 < len(titles) else len(text)
        article = text[title.start() : end].strip()
        name = re.sub(r"\W+", "-", title[1].strip()).strip("-").lower()
        (given.folder / f"{number:05}-{name}.txt").write_text(article + "\n", encoding="utf-8")
        written += len(article)


if __name__ == "__main__":
    main()
