"""The comparison of an old report with today's results: what a number is, and that one that is
missing is told."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from knnlm.errors import KnnlmError

SCRIPTS = Path(__file__).parents[2] / "scripts"
CLAIM = """## Claims

| claim | verdict | effect | 95 % | each seed | paper | where |
|---|---|---:|---:|---:|---:|---:|
| it helps | **holds** | +1.2 % | −0.3 % to +2.5 % | one LM | +8.1 % | section 3 |
"""
ROW = """## Rows

| row | λ | interp. | oracle | learned |
|---|---:|---:|---:|---:|
| att, k = 1,024 | 0.250 | 91.71 | 70.69 | 1,100 of 1,200 |
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("compare_results")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Results of one condition and one finding."""
    (tmp_path / "csv").mkdir()
    (tmp_path / "scale.json").write_text('{"queries": 10000}')
    (tmp_path / "csv" / "findings.csv").write_text(
        "id,effect,effect_low,effect_high,effect_of_each_seed,effect_in_the_paper\n"
        "it-helps,0.0123,-0.0031,0.0249,0.0123,0.0812\n"
    )
    (tmp_path / "csv" / "baselines.csv").write_text(
        "condition,part,ppl,lambda,oracle,lm.step,lm.steps\nmain,,91.7149,0.2498,70.694,1100,1200\n"
    )
    return tmp_path


def test_numbers_are_read_as_they_were_printed(script: ModuleType) -> None:
    def read(text: str) -> list[float]:
        numbers = [number for unit in script.units_in(text) for number in unit.numbers]
        return [value for number in numbers for value in number[1:]]

    assert read("−0.50 of 1,024") == pytest.approx([-0.5, 0.005, 1024, 0.5])
    assert read("121 % (95 to 152)") == pytest.approx([1.21, 0.005, 0.95, 0.005, 1.52, 0.005])
    assert read("5.57e+09 and 4.53M") == pytest.approx([5.57e9, 5e6, 4.53e6, 5e3])
    assert read("seed-1 of section 4.2 (F7) or `k 3` in 3.11.7") == []


def test_what_is_there_is_found(
    script: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.compare(CLAIM + ROW, script.Today(folder))
    assert "Missing:\nnothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("70.69", "70.66", "70.66 in Rows: | att"),
        ("+2.5 %", "+2.6 %", "+2.6 % in Claims: | it helps"),
        ("+8.1 %", "+8.0 %", "+8.0 % in Claims: | it helps"),
    ],
)
def test_what_is_missing_is_told(
    script: ModuleType,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    told: str,
) -> None:
    (folder / "old.md").write_text((CLAIM + ROW).replace(old, new))
    assert not script.main(str(folder / "old.md"), str(folder))
    assert told in capsys.readouterr().out


def test_numbers_of_one_row_must_stand_in_one_line(
    script: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "csv" / "baselines.csv"
    head, row = file.read_text().splitlines()
    *others, step, steps = row.split(",")
    apart = [head, ",".join([*others, "", ""]), f"other,,,,,{step},{steps}"]
    file.write_text("\n".join(apart))
    assert not script.compare(ROW, script.Today(folder))
    assert "1,200 in Rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "where", "told"),
    [
        ("no-such-revision", "", "no-such-revision is neither a file nor a revision that has"),
        ("HEAD", "nowhere", "holds no results: name a folder that 'knnlm reproduce' wrote"),
        ("HEAD", "bare", "has no CSV files: run 'knnlm reproduce --report' first"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    script: ModuleType, folder: Path, old: str, where: str, told: str
) -> None:
    (folder / "bare").mkdir()
    (folder / "bare" / "scale.json").write_text("{}")
    with pytest.raises(KnnlmError, match=told):
        script.main(old, str(folder / where))


def test_the_program_ends_with_the_sentence(tmp_path: Path) -> None:
    program = [sys.executable, str(SCRIPTS / "compare_results.py"), "HEAD", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        f"{tmp_path} holds no results: name a folder that 'knnlm reproduce' wrote\n"
    )
