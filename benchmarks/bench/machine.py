"""The machine that measured: what it is, and how fast it could be at most."""

import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.timing import fastest
from knnlm.experiments.provenance import commit, versions

_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
_INT8 = torch.iinfo(torch.int8)


def machine() -> dict[str, Any]:
    """Versions, processor and threads."""
    model, flags = platform.processor(), ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = dict(
            (part.strip() for part in line.split(":", 1))
            for line in cpuinfo.read_text().split("\n\n")[0].splitlines()
            if ":" in line
        )
        model, flags = lines.get("model name", model), lines.get("flags", "")
    return {
        "processor": model,
        "instructions": [name for name in _INSTRUCTIONS if name in flags.split()],
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "commit": commit(),
    }


class StolenTime:
    """How much of the processor's time the host of a virtual machine gives to others, from now."""

    def __init__(self) -> None:
        self.began = _processor_times()

    def share(self) -> float | None:
        """The share of the busy time since the beginning; None where the system does not say."""
        busy, stolen = (
            now - then for now, then in zip(_processor_times(), self.began, strict=True)
        )
        return round(stolen / busy, 3) if busy else None


def _processor_times() -> tuple[int, int]:
    """Busy time of all cores with stolen time, and stolen time alone."""
    file = Path("/proc/stat")
    if not file.is_file():
        return 0, 0
    user, nice, system, _, _, irq, soft_irq, stolen = map(int, file.read_text().split()[1:9])
    return user + nice + system + irq + soft_irq + stolen, stolen


def limits(quick: bool) -> dict[str, float]:
    """Products a second in three precisions (GFLOP/s), and bytes read a second (GB/s)."""
    size = 1024 if quick else 4096
    flops = 2 * size**3 / 1e9

    def product(dtype: torch.dtype) -> float:
        left, right = (torch.randn(size, size).to(dtype) for _ in range(2))
        return flops / fastest(lambda: torch.mm(left, right.T), 3)

    def whole() -> float:
        left, right = (
            torch.randint(_INT8.min, _INT8.max, (size, size), dtype=torch.int8) for _ in range(2)
        )
        return flops / fastest(lambda: torch._int_mm(left, right.T), 3)

    states = torch.ones((1 << 26) if quick else (1 << 28))  # sums of int32 are not vectorized
    return {
        "float32 GFLOP/s": product(torch.float32),
        "bfloat16 GFLOP/s": product(torch.bfloat16),
        "int8 GFLOP/s": whole(),
        "memory, read, GB/s": states.nbytes / 1e9 / fastest(states.sum, 3),
        "fp16 to fp32, torch, GB/s": _converted(quick),
    }


def _converted(quick: bool) -> float:
    narrow = torch.from_numpy(np.ones(1 << (22 if quick else 24), np.float16))
    wide = torch.empty(len(narrow))
    return narrow.nbytes / 1e9 / fastest(lambda: wide.copy_(narrow), 5)
