"""Training a base LM: it learns, repeats itself exactly, and keeps the best weights."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from knnlm.errors import KnnlmError
from knnlm.files import read_json
from knnlm.locks import write_lock
from knnlm.models import CHECKPOINTS
from knnlm.models import TRAINING_RECORD as RECORD
from knnlm.models.load import load_model
from knnlm.models.presets import new_model
from knnlm.text.documents import Document, Source
from knnlm.text.tokenizer import joined_tokens
from knnlm.training.language_model import (
    learning_rate,
    new_optimizer,
    next_token_loss,
)
from knnlm.training.token_batches import validation_windows
from tests.training.training import TINY, Texts, contents, write_text

pytestmark = [pytest.mark.pipeline, pytest.mark.usefixtures("one_thread")]


class Unreadable(NamedTuple):
    """A text that is known but must not be read."""

    source: Source

    def describe(self) -> dict[str, Any]:
        return self.source.describe()

    def __iter__(self) -> Iterator[Document]:  # type: ignore[override]
        raise AssertionError("it was read")


def valid_loss(folder: Path, texts: Texts) -> float:
    lm = load_model(folder)
    windows = validation_windows(
        joined_tokens(lm.tokenizer, texts.valid), TINY.context, TINY.valid_tokens
    )
    with torch.inference_mode():
        return next_token_loss(lm.model, torch.from_numpy(windows)).item()


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_the_model_learns(tmp_path: Path, prose: Texts) -> None:
    trained = prose.into(
        tmp_path / "m", dataclasses.replace(TINY, steps=100, dropout=0.0, attention_dropout=0.0)
    )
    losses = [entry["valid_loss"] for entry in read_json(tmp_path / "m" / RECORD)["history"]]
    assert trained.valid_ppl == pytest.approx(math.exp(min(losses)))
    assert trained.valid_ppl < 0.6 * math.exp(losses[0])
    assert trained.train_ppl < 25


def test_the_folder_opens_as_a_model_with_the_loss_that_was_reported(
    tmp_path: Path, prose: Texts
) -> None:
    trained = prose.into(tmp_path / "m")
    assert valid_loss(tmp_path / "m", prose) == pytest.approx(math.log(trained.valid_ppl), abs=1e-5)
    lm = load_model(tmp_path / "m")
    assert trained.parameters == sum(p.numel() for p in lm.model.parameters())
    assert trained.train_tokens == len(joined_tokens(lm.tokenizer, prose.train))
    assert trained.tokens_per_second > 0


def test_the_best_weights_on_validation_are_kept_not_the_last(tmp_path: Path, prose: Texts) -> None:
    prose.train = write_text(tmp_path / "short.txt", 3, words=100)
    overfit = dataclasses.replace(
        TINY, steps=150, dropout=0.0, attention_dropout=0.0, weight_decay=0.0, lr=3e-2
    )
    trained = prose.into(tmp_path / "m", overfit)
    history = {
        entry["step"]: entry["valid_loss"]
        for entry in read_json(tmp_path / "m" / RECORD)["history"]
    }
    assert trained.best_step == min(history, key=lambda step: history[step]) < trained.steps
    assert valid_loss(tmp_path / "m", prose) == pytest.approx(history[trained.best_step], abs=1e-5)
    assert history[trained.steps] > history[trained.best_step] + 0.01


def test_models_on_the_way_are_kept_as_folders(tmp_path: Path, prose: Texts) -> None:
    preset = dataclasses.replace(TINY, keep=(10, 20))
    prose.into(tmp_path / "m", preset)
    history = {
        entry["step"]: entry["valid_loss"]
        for entry in read_json(tmp_path / "m" / RECORD)["history"]
    }
    for step in preset.keep:
        assert valid_loss(tmp_path / "m" / CHECKPOINTS / str(step), prose) == pytest.approx(
            history[step], abs=1e-5
        )


def test_keeping_models_changes_nothing_else(tmp_path: Path, prose: Texts) -> None:
    prose.into(tmp_path / "a")
    prose.into(tmp_path / "b", dataclasses.replace(TINY, keep=(10,)))
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


def test_the_same_seed_gives_the_same_weights_bit_for_bit_and_another_gives_others(
    tmp_path: Path, prose: Texts
) -> None:
    for out, seed in {"a": 7, "b": 7, "c": 8}.items():
        prose.into(tmp_path / out, seed=seed)
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert weights(tmp_path / "a") != weights(tmp_path / "c")


def test_the_result_does_not_depend_on_what_torch_did_before(tmp_path: Path, prose: Texts) -> None:
    prose.into(tmp_path / "a")
    torch.rand(5)
    prose.into(tmp_path / "b")
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


def test_a_finished_run_returns_at_once_and_changes_nothing(tmp_path: Path, prose: Texts) -> None:
    first = prose.into(tmp_path / "m")
    before = contents(tmp_path / "m")
    prose.train, prose.valid = Unreadable(prose.train), Unreadable(prose.valid)
    assert prose.into(tmp_path / "m") == first
    assert contents(tmp_path / "m") == before


def test_messages_are_logged_and_nothing_is_printed(
    tmp_path: Path,
    prose: Texts,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    prose.into(tmp_path / "m")
    assert capsys.readouterr() == ("", "")
    assert "step 10: training perplexity" in caplog.text
    prose.into(tmp_path / "m")
    assert "is trained already" in caplog.text


@pytest.mark.parametrize("steps", [1, 5])
def test_a_loss_that_is_no_number_stops_with_a_sentence(
    tmp_path: Path, prose: Texts, steps: int
) -> None:
    wild = dataclasses.replace(TINY, lr=1e38, steps=steps, warmup=1)
    with pytest.raises(
        KnnlmError, match=r"the loss became (nan|inf) at step 1: choose a smaller learning rate"
    ):
        prose.into(tmp_path / "m", wild)
    assert not (tmp_path / "m" / RECORD).exists()


def test_too_short_a_text_is_refused_and_the_folder_can_be_used_for_another(
    tmp_path: Path, prose: Texts
) -> None:
    enough = prose.train
    prose.train = write_text(tmp_path / "short.txt", 3, words=5)
    with pytest.raises(
        KnnlmError, match=r"the training text has \d+ tokens but two windows of 16 are the least"
    ):
        prose.into(tmp_path / "m")
    prose.train = enough
    assert prose.into(tmp_path / "m") is not None


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path, prose: Texts) -> None:
    with (
        write_lock(tmp_path / "m"),
        pytest.raises(
            KnnlmError, match=r"another process is writing to .*m \(process \d+ on .*\): wait"
        ),
    ):
        prose.into(tmp_path / "m")


def test_the_learning_rate_rises_in_a_line_then_falls_along_a_cosine_to_a_tenth() -> None:
    p = dataclasses.replace(TINY, lr=2.0, warmup=4, steps=104)
    assert [learning_rate(step, p) for step in range(5)] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])
    assert learning_rate(54, p) == pytest.approx(2.0 * 0.55)
    assert learning_rate(104, p) == pytest.approx(0.2)
    falling = [learning_rate(step, p) for step in range(4, 105)]
    assert falling == sorted(falling, reverse=True)


def test_matrices_decay_and_vectors_do_not() -> None:
    model = new_model(TINY, 50, 0)
    decays, plain = new_optimizer(model, TINY).param_groups
    assert (decays["weight_decay"], plain["weight_decay"]) == (TINY.weight_decay, 0.0)
    assert {p.ndim for p in decays["params"]} == {2}
    assert {p.ndim for p in plain["params"]} == {1}
    assert len(decays["params"]) + len(plain["params"]) == len(list(model.parameters()))


@torch.inference_mode()
def test_the_loss_is_that_of_transformers_itself() -> None:
    torch.manual_seed(0)
    model = new_model(TINY, 50, 0).eval()
    ids = torch.randint(50, (3, TINY.context))
    assert next_token_loss(model, ids).item() == pytest.approx(
        model(input_ids=ids, labels=ids).loss.item(), abs=1e-6
    )
