"""How a record was made: command, commit, versions, machine. Readers compare it; the runner does
not."""

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from knnlm.experiments.condition import Condition
    from knnlm.experiments.lms import LMs

_PACKAGES = ("knnlm", "torch", "transformers", "faiss-cpu", "numpy", "scipy")


class UsedLM(NamedTuple):
    """A further LM that a condition used."""

    name: str
    step: int | None
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How one record was made."""

    model: str
    """Fingerprint of the base LM."""
    other_models: tuple[UsedLM, ...]
    train_seconds: int
    """How long the base LM was trained, by whichever process; it serves many conditions."""
    others_train_seconds: dict[str, int]
    command: str
    commit: str | None
    """None for an installed package."""
    seed: int | None
    """Of the base LM; None for one that existed already."""
    versions: dict[str, str]
    """Of Python and of the packages that numbers depend on."""
    machine: str
    instructions: str | None
    """Vector instructions; None where a record is older than this field, as below."""
    threads: int | None
    seconds: float


def make_provenance(
    condition: "Condition[Any, Any]", lms: "LMs", command: str, seconds: float
) -> Provenance:
    """How this process measured a condition.

    Args:
        condition: What was measured.
        lms: The LMs of the experiment.
        command: The command that measures it.
        seconds: How long it took, without the training of LMs.
    """
    import torch

    name = condition.lm.name
    return Provenance(
        model=lms.model(*condition.lm).fingerprint,
        other_models=tuple(UsedLM(*lm, lms.model(*lm).fingerprint) for lm in condition.other_lms),
        train_seconds=lms.training_seconds(name),
        others_train_seconds={lm.name: lms.training_seconds(lm.name) for lm in condition.other_lms},
        command=command,
        commit=commit(),
        seed=lms.seed(name),
        versions=versions(),
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        instructions=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        seconds=round(seconds, 1),
    )


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
