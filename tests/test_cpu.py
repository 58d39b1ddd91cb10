"""A 16-bit type is chosen by what its products take, not by the name of the CPU."""

import pytest
import torch

from knnlm import cpu


@pytest.mark.parametrize(("seconds", "faster"), [(0.5, True), (0.9, False), (3.0, False)])
def test_a_narrow_type_must_be_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, seconds: float, faster: bool
) -> None:
    times = {torch.float32: 1.0, torch.bfloat16: seconds}
    monkeypatch.setattr(cpu, "product_seconds", times.__getitem__)
    assert cpu.multiplies_faster(torch.bfloat16) is faster


def test_products_are_timed_after_one_that_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ran = iter([0.0, 5.0, 5.0, 7.0, 7.0, 10.0]), list[int]()
    monkeypatch.setattr(cpu, "_RUNS", 3)
    monkeypatch.setattr("knnlm.cpu.time.perf_counter", lambda: next(clock))
    assert cpu.fastest_run(lambda: ran.append(0)) == 2.0
    assert len(ran) == 4
