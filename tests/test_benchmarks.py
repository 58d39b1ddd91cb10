"""The page of benchmarks and its plots, from made-up records, and the slopes of growth."""

import importlib
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
FAMILIES = {
    "default, 3 refined": (0.9, 500),
    "default, 2 refined": (0.85, 700),
    "small, 4 refined": (0.9, 300),
    "SQ8": (0.92, 130),
    "SQ6": (0.9, 150),
    "hnswlib": (0.93, 180),
    "usearch": (0.91, 200),
    "ScaNN": (0.9, 450),
    "the earlier default": (0.55, 1500),
    "the paper's IVFPQ": (0.4, 900),
}
STORES = tuple(f"{lm}, {key}: 1,000 × 64" for lm in ("A", "B") for key in ("att, l2", "ffn, ip"))
OPERATIONS = {
    "build": (2e-5, 1.0, 300, 0.1),
    "index": (2e-5, 1.1, 900, 0.9),
    "exact search": (1e-6, 1.0, 25_000, 0.3),
    "approximate search": (3e-4, 0.5, 5_000, 0.8),
    "tune": (8e-3, 0.5, 50_000, 0.5),
}


def head(case: str) -> dict[str, Any]:
    return {
        "case": case,
        "machine": {"processor": "An Abacus", "instructions": [], "threads": 3, "commit": "abc"},
        "limits": {"float32 GFLOP/s": 12.3},
        "date": "2026-01-02",
    }


def index_points() -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    for number, store in enumerate(STORES):
        for family, (recall, speed) in FAMILIES.items():
            points += [
                {
                    "store": store,
                    "index": family,
                    "family": family,
                    "recall": min(0.99, recall - 0.1 + 0.03 * step - 0.02 * number),
                    "queries_per_second": speed / 1.5**step / (1 + number),
                    "perplexity": 14 - 2 * recall - 0.1 * step if number < 2 else None,
                }
                for step in range(4)
            ]
        points.append({"store": store, "failed": "not enough memory", "recall": 0.0})
    return points


def growth_points() -> list[dict[str, Any]]:
    return [
        {
            "operation": operation,
            "entries": 10**digits,
            "seconds": [seconds * 10 ** (digits * power)] * 3,
            "anonymous_bytes": bytes_ * 10 ** (digits * memory),
        }
        for operation, (seconds, power, bytes_, memory) in OPERATIONS.items()
        for digits in range(4, 7 if operation == "build" else 8)
    ]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the benchmarks, which are scripts and not installed."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records of three cases."""
    ratios = [
        {
            "subject": f"{n} × 128",
            "rival": "faiss.knn",
            "unit": "GFLOP/s",
            "ours": [1, 2, 3],
            "theirs": [1, 2, 3],
            "ratio": [n - 0.1, n, n + 0.2],
            "aim": 1.3,
        }
        for n in (0.9, 1.1, 1.5)
    ]
    growth = growth_points()
    slopes = [
        {"operation": name, "seconds": seconds, "memory": memory}
        for name, (_, seconds, _, memory) in OPERATIONS.items()
    ]
    records: dict[str, dict[str, Any]] = {
        "exact": {"comparisons": ratios, "products_in": "torch.int8", "note": "It was cold."},
        "indexes": {"points": index_points()},
        "growth": {"points": growth, "slopes": slopes, "slopes_from": 100_000, "stolen": 0.21},
    }
    for case, fields in records.items():
        (tmp_path / f"{case}.json").write_text(json.dumps({**head(case), **fields}))
    return tmp_path


def run_page(folder: Path, *arguments: str) -> int:
    command: list[str | Path] = [sys.executable, BENCHMARKS / "page.py", "--records", folder]
    command += ["--page", folder / "page.md", *arguments]
    return subprocess.run(command, check=False).returncode


def test_plots_are_drawn_from_records(folder: Path) -> None:
    assert run_page(folder) == 0
    text = (folder / "page.md").read_text()
    drawn = {file.stem: file.read_text() for file in folder.glob("*.svg")}
    names = {"exact", "indexes-recall", "indexes-perplexity", "growth-seconds", "growth-memory"}
    assert drawn.keys() == names
    for name, svg in drawn.items():
        ET.fromstring(svg)
        assert f"({name}.svg)" in text or f"(./{name}.svg)" in text
    assert all(store in drawn["indexes-recall"] for store in STORES)
    assert [store in drawn["indexes-perplexity"] for store in STORES] == [True, True, False, False]
    assert "hnswlib" in drawn["indexes-recall"]
    assert "others, in the table" in drawn["indexes-recall"]
    assert "approximate search: slope 0.50" in drawn["growth-seconds"]
    assert "approximate search: slope 0.80" in drawn["growth-memory"]


def test_the_page_says_how_each_record_was_made(folder: Path) -> None:
    run_page(folder)
    text = (folder / "page.md").read_text()
    assert text.count("Measured on An Abacus, 3 threads, on 2026-01-02, at commit abc") == 3
    assert "Many queries are multiplied in int8. It was cold." in text
    assert "The host gave 21% of the busy time to others." in text
    assert "Not measured yet: generation, building and training, sweeps." in text


def test_the_check_sees_another_page_and_other_plots(folder: Path) -> None:
    run_page(folder)
    assert run_page(folder, "--check") == 0
    svg = folder / "exact.svg"
    svg.write_text(svg.read_text() + "\n")  # digits may differ between machines
    assert run_page(folder, "--check") == 0
    (folder / "old.svg").write_text("")
    assert run_page(folder, "--check") == 1
    (folder / "old.svg").unlink()
    svg.unlink()
    assert run_page(folder, "--check") == 1
    run_page(folder)
    (folder / "page.md").write_text("other")
    assert run_page(folder, "--check") == 1


def test_a_slope_is_the_exponent_of_a_power(bench: Any) -> None:
    slope = bench("bench.cases.growth").slope
    assert slope([(n, 3 * n**0.7) for n in (10, 1000, 5000)]) == 0.7
    assert slope([(10, 5.0), (100, 5.0), (1000, 0.0)]) == 0.0
    assert slope([(10, 5.0)]) is None


def test_memory_is_what_a_process_asked_for(bench: Any, tmp_path: Path) -> None:
    own_process = bench("bench.own_process")
    if not Path("/proc/self/status").is_file():
        pytest.skip("needs /proc")
    (tmp_path / "worker.py").write_text(
        "import json, sys\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "import time; block = bytearray(50_000_000); block[::4096] = b'x' * len(block[::4096])\n"
        "time.sleep(0.1); del block\n"
        "print('done', flush=True); print(json.dumps({'seconds': 1}), flush=True)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        result, peak = own_process.in_own_process("worker", {})
    assert result == {"seconds": 1}
    assert math.isclose(peak.anonymous, 50e6, rel_tol=0.1)
    with pytest.raises(RuntimeError, match="instead of 'ready'") as failed:
        own_process.in_own_process("no_such_module", {})
    assert any("no_such_module" in note for note in failed.value.__notes__)
