"""How a record was made: command, commit, versions, machine. Readers compare it; the runner does
not."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("knnlm", "torch", "transformers", "faiss-cpu", "numpy", "scipy")


def provenance(command: str, seconds: float) -> dict[str, Any]:
    """What is the same for every condition that this process measures, with the command that
    measures this one and the seconds that it took."""
    return {
        "command": command,
        "commit": commit(),
        "versions": versions(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages that numbers depend on."""
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }


def commit() -> str | None:
    """The commit of a checkout, marked where files differ from it; None for an installed
    package."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--match="],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None
