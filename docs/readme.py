"""Writes the answer into README.md, from the records of the laptop run. `make readme` runs it, a test checks it."""

import re
from pathlib import Path

from knnlm.paper.present.report import readme
from knnlm.paper.scales import LAPTOP_SCALE

ROOT = Path(__file__).parents[1]
RESULTS = "docs/results/laptop"
_PLACE = re.compile(r"(<!-- answer: [^>]*-->\n).*?(<!-- end of answer -->)", re.DOTALL)


def with_answer(text: str) -> str:
    """A README's text with the answer as it is now."""
    answer = readme(ROOT / RESULTS, LAPTOP_SCALE, f"{RESULTS}/figures")
    return _PLACE.sub(lambda found: f"{found[1]}\n{answer}\n{found[2]}", text)


if __name__ == "__main__":
    file = ROOT / "README.md"
    file.write_text(with_answer(file.read_text()))
