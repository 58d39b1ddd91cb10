"""Row t holds the state that predicts target t: compared with the model itself, run the plain
way."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.models.load import LanguageModel
from knnlm.text.windows import cut_windows

from .helpers import Texts, library, texts
from .test_build import tokens_of

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)


class Seen:
    """What the model itself computes for some tokens, read without our taps."""

    def __init__(self, lm: LanguageModel, ids: NDArray[np.int32]) -> None:
        normed: list[torch.Tensor] = []
        norm = lm.model.model.decoder.layers[
            -1
        ].final_layer_norm  # OPT's name for the norm before the feed-forward layer
        handle = norm.register_forward_hook(lambda _, __, output: normed.append(output))
        with torch.no_grad():
            out = lm.model(
                input_ids=torch.from_numpy(ids[None].astype(np.int64)), output_hidden_states=True
            )
        handle.remove()
        self.att = normed[0].reshape(len(ids), -1).numpy()
        self.ffn = out.hidden_states[-1][0].numpy()
        self.logprob = out.logits[0].log_softmax(-1).numpy()


def build(lm: LanguageModel, source: Texts, folder: Path, **options: Any) -> Entries:
    return build_entries(lm, source, folder, **{"logprobs": True, "dtype": "float32", **options})


def test_states_are_those_of_a_plain_pass_over_the_document_one_place_before_the_target(
    tmp_path: Path, lm: LanguageModel
) -> None:
    source = texts(7, 1, 4, 6)
    store = build(lm, source, tmp_path)
    row = 0
    for document in source:
        ids = tokens_of(lm, document)
        assert len(ids) <= store.meta["window"]
        seen, end = Seen(lm, ids), row + len(ids) - 1
        np.testing.assert_array_equal(store.targets[row:end], ids[1:])
        close(store.key("att").read(row, end), seen.att[:-1])
        close(store.key("ffn").read(row, end), seen.ffn[:-1])
        wanted = seen.logprob[np.arange(len(ids) - 1), ids[1:]]
        close(store.lm_logprob[row:end], wanted)
        row = end
    assert row == store.count


def sees(length: int, window: int, stride: int) -> Iterator[tuple[int, int]]:
    """(target, first token the model sees before it), from the words of the contract alone."""
    for target in range(1, length):
        stop = min(window, length - 1)
        while stop < target:
            stop = min(stop + stride, length - 1)
        yield target, max(0, stop - window)


@pytest.mark.parametrize(("window", "stride"), [(12, 5), (8, 8), (9, 1), (1, 1)])
def test_in_a_long_document_each_target_is_predicted_from_its_window_and_nothing_else(
    tmp_path: Path, lm: LanguageModel, window: int, stride: int
) -> None:
    source = texts(30, 3)
    store = build(lm, source, tmp_path, window=window, stride=stride)
    row = 0
    for document in source:
        ids = tokens_of(lm, document)
        for target, first in sees(len(ids), window, stride):
            assert target - first >= min(
                target, window - stride + 1
            )  # the context that is promised
            seen = Seen(lm, ids[first:target])
            close(store.key("att").read(row, row + 1)[0], seen.att[-1])
            close(store.key("ffn").read(row, row + 1)[0], seen.ffn[-1])
            close(store.lm_logprob[row], seen.logprob[-1, ids[target]])
            row += 1
    assert row == store.count


@pytest.mark.parametrize(("window", "stride"), [(12, 5), (20, 10)])
def test_log_probabilities_add_up_to_hugging_faces_own_loss(
    tmp_path: Path, lm: LanguageModel, window: int, stride: int
) -> None:
    store = build(lm, library(), tmp_path, window=window, stride=stride)
    total, count = 0.0, 0
    for document in library():
        ids = torch.from_numpy(tokens_of(lm, document).astype(np.int64))
        for w in cut_windows(len(ids), window, stride):
            inputs = ids[
                None, w.start : w.stop + 1
            ]  # the library shifts, so the last target is an input too
            labels = torch.where(torch.arange(w.start, w.stop + 1) < w.first, -100, inputs)
            with torch.no_grad():
                loss = lm.model(input_ids=inputs, labels=labels).loss.item()
            total, count = total + loss * w.scored, count + w.scored
    assert count == store.count
    assert total / count == pytest.approx(-store.lm_logprob.mean(dtype=np.float64), abs=1e-5)


def test_which_windows_run_together_does_not_matter(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = build(lm, library(), tmp_path / "together", window=12, stride=5)
    monkeypatch.setattr("knnlm.hidden_states.forward.BATCH_TOKENS", 1)
    alone = build(lm, library(), tmp_path / "alone", window=12, stride=5)
    monkeypatch.setattr("knnlm.hidden_states.forward.BATCH_TOKENS", 50)
    monkeypatch.setattr("knnlm.hidden_states.output_head._ROWS_AT_ONCE", 3)
    monkeypatch.setattr("knnlm.hidden_states.output_head._IN_CACHE", 1)
    monkeypatch.setattr("knnlm.datastore.build.GROUP_TOKENS", 40)
    some = build(lm, library(), tmp_path / "some", window=12, stride=5)
    for other in (alone, some):
        np.testing.assert_array_equal(other.targets, together.targets)
        for name in ("att", "ffn", "lm_logprob"):
            found, wanted = (store.table.columns[name].all() for store in (other, together))
            close(found, wanted)


def test_half_precision_is_the_nearest_to_full_precision(tmp_path: Path, lm: LanguageModel) -> None:
    full = build(lm, library(), tmp_path / "full")
    half = build(lm, library(), tmp_path / "half", dtype="float16")
    for key in full.keys:
        assert half.key(key).all().dtype == np.float16
        np.testing.assert_array_equal(half.key(key).all(), full.key(key).all().astype(np.float16))
    np.testing.assert_array_equal(half.lm_logprob, full.lm_logprob)
