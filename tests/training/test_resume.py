"""A run that was stopped, even by a kill, ends as if it never had been; it leaves alone what is not
its own."""

import dataclasses
import json
import multiprocessing
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import read_json
from knnlm.models import TRAINING_RECORD as RECORD
from knnlm.models.load import load_model
from knnlm.text.tokenizer import train_tokenizer
from knnlm.training.language_model import RUN, TrainingResult
from knnlm.training.loop import BEST, LAST
from tests.training.training import TINY, Texts, contents, interrupt_after, write_text

pytestmark = [pytest.mark.pipeline, pytest.mark.usefixtures("one_thread")]
LONGER = dataclasses.replace(TINY, steps=200)
SAVED = Path(RUN, LAST)


def result(out: Path, trained: TrainingResult) -> tuple[object, ...]:
    """All that must not depend on how often a run was stopped."""
    losses = read_json(out / RECORD)["history"]
    files = {name: data for name, data in contents(out).items() if name not in (RECORD, str(SAVED))}
    return trained.best_step, trained.train_ppl, trained.valid_ppl, losses, files


def train_in_a_process(texts: Texts, out: Path) -> None:
    """The work of the process that is killed."""
    torch.set_num_threads(1)
    texts.into(out, LONGER, save_every=3)


def saved_step(out: Path) -> int:
    """How far the checkpoint is, while another process may be replacing it."""
    if not (out / SAVED).is_file():
        return 0
    data = (out / SAVED).read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return int(json.loads(header["__metadata__"]["note"])["step"])


def test_a_run_killed_again_and_again_ends_with_the_bytes_of_one_that_was_not(
    tmp_path: Path, prose: Texts
) -> None:
    whole = prose.into(tmp_path / "whole", LONGER)
    rng = random.Random(0)
    out = tmp_path / "killed"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.training.training", "transformers.models.opt.modeling_opt"]
    )
    moments: list[Callable[[], bool]] = [
        lambda: (out / "tokenizer.json").exists(),
        lambda: saved_step(out) >= 3,
        lambda: saved_step(out) >= 21,
        lambda: saved_step(out) >= 54,
    ]
    for moment in moments:
        process = context.Process(target=train_in_a_process, args=(prose, out))
        process.start()
        while process.is_alive() and not moment():
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -9, "it ended before it could be killed"
    assert 54 <= saved_step(out) < LONGER.steps
    assert result(out, prose.into(out, LONGER, save_every=3)) == result(tmp_path / "whole", whole)


@pytest.mark.parametrize("saves", [1, 3, 4, 10])
def test_a_run_stopped_by_ctrl_c_resumes_where_it_was(
    tmp_path: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch, saves: int
) -> None:
    whole = prose.into(tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt_after(saves, patch)
        with pytest.raises(KeyboardInterrupt):
            prose.into(tmp_path / "stopped", save_every=3)
    steps = [3, 6, 9, 10, 12, 15, 18, 20, 21, 24]
    assert saved_step(tmp_path / "stopped") == steps[saves - 1]
    resumed = prose.into(tmp_path / "stopped", save_every=3)
    assert result(tmp_path / "stopped", resumed) == result(tmp_path / "whole", whole)


def test_a_minute_between_saves_is_the_most_that_is_lost(
    tmp_path: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = prose.into(tmp_path / "whole")
    monkeypatch.setattr("knnlm.training.loop.SAVE_SECONDS", -1.0)  # every step is late
    with monkeypatch.context() as patch:
        interrupt_after(4, patch)
        with pytest.raises(KeyboardInterrupt):
            prose.into(tmp_path / "stopped")
    assert saved_step(tmp_path / "stopped") == 4
    assert result(tmp_path / "stopped", prose.into(tmp_path / "stopped")) == result(
        tmp_path / "whole", whole
    )


@pytest.mark.parametrize("harm", ["cut", "emptied", "scrambled"])
def test_a_damaged_checkpoint_is_named_and_the_advice_given_works(
    unfinished: Path, prose: Texts, harm: str
) -> None:
    data = (unfinished / SAVED).read_bytes()
    (unfinished / SAVED).write_bytes(
        {"cut": data[:-9], "emptied": b"", "scrambled": b"\xff" * 200 + data[200:]}[harm]
    )
    with pytest.raises(
        DamagedError, match=r"last.safetensors is damaged: delete .*training and run the same"
    ):
        prose.into(unfinished)
    shutil.rmtree(unfinished / RUN)
    assert prose.into(unfinished).steps == TINY.steps


def test_a_flipped_bit_never_gives_another_model(unfinished: Path, prose: Texts) -> None:
    good, chance = (unfinished / SAVED).read_bytes(), random.Random(0)
    for bit in chance.sample(range(len(good) * 8), 30):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        (unfinished / SAVED).write_bytes(bad)
        with pytest.raises(DamagedError, match=r"last.safetensors is damaged: delete .*training"):
            prose.into(unfinished)


def test_a_flipped_bit_in_the_best_weights_never_becomes_the_model(
    unfinished: Path, prose: Texts
) -> None:
    prose.into(unfinished)
    (unfinished / RECORD).unlink()
    data = bytearray((unfinished / RUN / BEST).read_bytes())
    data[-5] ^= 8
    (unfinished / RUN / BEST).write_bytes(data)
    with pytest.raises(DamagedError, match=r"best.safetensors is damaged: delete .*training"):
        prose.into(unfinished)


def test_a_damaged_tokenizer_of_an_unfinished_run_is_trained_again(
    tmp_path: Path, unfinished: Path, prose: Texts
) -> None:
    whole = prose.into(tmp_path / "whole")
    file = unfinished / "tokenizer.json"
    good = file.read_text()
    file.write_text(good.replace('"cat"', '"cot"').replace('"the"', '"teh"'))
    assert file.read_text() != good
    assert result(unfinished, prose.into(unfinished)) == result(tmp_path / "whole", whole)


def test_an_unfinished_run_without_the_record_of_its_tokenizer_is_refused(
    unfinished: Path, prose: Texts
) -> None:
    (unfinished / RUN / "tokenizer.json").unlink()
    with pytest.raises(
        DamagedError, match=r"training/tokenizer.json is missing: delete .*training"
    ):
        prose.into(unfinished)


def test_a_tokenizer_that_comes_out_otherwise_is_not_used(
    unfinished: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = train_tokenizer(["entirely other words"], 270)
    monkeypatch.setattr("knnlm.training.language_model.train_tokenizer", lambda *_: other)
    (unfinished / "tokenizer.json").unlink()
    with pytest.raises(DamagedError, match=r"the tokenizer in .* is damaged, .*: delete .*train"):
        prose.into(unfinished)


def test_best_weights_that_are_gone_are_missed_with_a_sentence(
    unfinished: Path, prose: Texts
) -> None:
    prose.into(unfinished)
    (unfinished / RECORD).unlink()
    (unfinished / RUN / BEST).unlink()
    with pytest.raises(
        DamagedError, match=r"best.safetensors is damaged: delete .*training and run"
    ):
        prose.into(unfinished)


def test_an_unfinished_run_of_another_text_preset_or_seed_is_refused_and_untouched(
    tmp_path: Path, unfinished: Path, prose: Texts
) -> None:
    before = contents(unfinished)
    others: list[Callable[[], TrainingResult]] = [
        lambda: prose.into(unfinished, seed=1),
        lambda: prose.into(unfinished, dataclasses.replace(TINY, lr=0.5 * TINY.lr)),
        lambda: prose.into(unfinished, dataclasses.replace(TINY, width=32)),
        lambda: prose.into(unfinished, dataclasses.replace(TINY, layers=1)),
    ]
    for other in others:
        with pytest.raises(
            KnnlmError, match=r"holds an unfinished run of another text, preset or seed: choose"
        ):
            other()
    prose.train = write_text(tmp_path / "other.txt", 9)
    with pytest.raises(KnnlmError, match=r"holds an unfinished run of another text"):
        prose.into(unfinished)
    assert contents(unfinished) == before


def test_a_finished_model_of_another_text_or_seed_is_refused_and_untouched(
    tmp_path: Path, prose: Texts
) -> None:
    prose.into(tmp_path / "m")
    before = contents(tmp_path / "m")
    with pytest.raises(
        KnnlmError, match=r"m holds a model of another text, preset or seed: choose another `path`"
    ):
        prose.into(tmp_path / "m", seed=1)
    prose.valid = write_text(tmp_path / "other.txt", 9)
    with pytest.raises(KnnlmError, match=r"m holds a model of another text"):
        prose.into(tmp_path / "m")
    assert contents(tmp_path / "m") == before


def test_a_model_from_elsewhere_is_never_overwritten(
    tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    out = tmp_path / "theirs"
    shutil.copytree(tiny_model, out)
    before = contents(out)
    with pytest.raises(
        KnnlmError, match=r"theirs holds a model that `train` did not write: choose another"
    ):
        prose.into(out)
    assert {name: data for name, data in contents(out).items() if name != ".lock"} == before


def test_a_tokenizer_left_by_a_run_of_another_text_is_not_used(
    tmp_path: Path, prose: Texts, tiny_model: Path
) -> None:
    (tmp_path / "m").mkdir()
    for file in tiny_model.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "m")
    used, clean = prose.into(tmp_path / "m"), prose.into(tmp_path / "clean")
    assert result(tmp_path / "m", used) == result(tmp_path / "clean", clean)


def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_stays(
    unfinished: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, really = (unfinished / SAVED).read_bytes(), Path.open

    def full(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        if mode == "xb" and path.name.startswith(LAST):
            return open("/dev/full", "wb")
        return really(path, mode, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(
            KnnlmError, match=r"the disk under .*last.safetensors is full: free some space"
        ):
            prose.into(unfinished, save_every=3)
    assert (unfinished / SAVED).read_bytes() == before
    assert prose.into(unfinished).steps == TINY.steps


def test_a_model_whose_training_has_not_finished_is_refused_with_what_to_do(
    unfinished: Path,
) -> None:
    with pytest.raises(
        KnnlmError, match=r"its training has not finished: run the same `train` again"
    ):
        load_model(unfinished)
