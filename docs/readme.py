"""Writes the answer into README.md, from the records of the laptop run. `make readme` runs it, a
test checks it."""

import re
from pathlib import Path

from knnlm_paper.report.report import readme
from knnlm_paper.scales import LAPTOP_SCALE

ROOT = Path(__file__).parents[1]
RESULTS = "docs/results/laptop"
_ANSWER = re.compile(r"(<!-- answer: [^>]*-->\n).*?(<!-- end of answer -->)", re.DOTALL)


def with_answer(text: str) -> str:
    """A README's text with the answer as it is now."""
    answer = readme(ROOT / RESULTS, LAPTOP_SCALE, f"{RESULTS}/figures")
    updated, times = _ANSWER.subn(lambda match: f"{match[1]}\n{answer}\n{match[2]}", text)
    if times != 1:
        raise ValueError(
            f"the README has {times} places for the answer, not one: mark it by two comments"
        )
    return updated


if __name__ == "__main__":
    file = ROOT / "README.md"
    file.write_text(with_answer(file.read_text()))
