"""Records of measurements, many in one file, each under its name."""

import json
from pathlib import Path
from typing import Any


def keep_record(file: Path | None, name: str, record: dict[str, Any]) -> None:
    """Put a record into a JSON file beside what is there; None keeps nothing."""
    if file is None:
        return
    kept = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**kept, name: record}, indent=1, ensure_ascii=False) + "\n")
