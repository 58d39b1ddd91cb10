"""What the documents say is so."""

from pathlib import Path

from knnlm.taps import FAMILIES

DOCS = Path(__file__).parent.parent / "docs"


def test_every_family_is_documented() -> None:
    text = (DOCS / "models.md").read_text()
    missing = [name for name in FAMILIES if name not in text]
    assert missing == []
