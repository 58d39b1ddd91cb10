"""The parts of Hugging Face around a model work with it unchanged: pipelines, streaming, sampling,
Trainer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.huggingface.making import PROMPTS, Made, alone, dense

pytestmark = pytest.mark.pipeline


def test_a_text_generation_pipeline(made: Made, tokenizer: Any) -> None:
    pipe = transformers.pipeline("text-generation", model=made.model, tokenizer=tokenizer)
    (found,) = pipe("the cat sat", max_new_tokens=5, do_sample=False)
    assert found["generated_text"].startswith("the cat sat")
    assert len(found["generated_text"]) > len("the cat sat")


def test_streaming_gives_the_same_tokens(made: Made) -> None:
    class Keep(transformers.generation.BaseStreamer):  # type: ignore[misc]
        def __init__(self) -> None:
            self.tokens: list[int] = []

        def put(self, value: torch.Tensor) -> None:
            self.tokens += value.flatten().tolist()

        def end(self) -> None:
            pass

    streamer = Keep()
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    whole = made.model.generate(**alone(PROMPTS[0]), streamer=streamer, **options)
    assert streamer.tokens == whole[0].tolist()


def test_sampling_draws_from_the_mixture(made: Made) -> None:
    prompt = {
        "input_ids": torch.tensor([PROMPTS[0]] * 4000),
        "attention_mask": torch.ones(4000, 5, dtype=torch.long),
    }
    torch.manual_seed(0)
    drawn = made.model.generate(
        **prompt, max_new_tokens=1, do_sample=True, top_k=0, pad_token_id=0
    )[:, -1]
    counts = np.bincount(drawn.numpy(), minlength=300) / 4000
    p = dense(made, PROMPTS[0])[-1]
    assert np.abs(counts - p).max() < 5 * np.sqrt(p.max() / 4000)
    assert np.abs(counts - p).sum() < 0.6 * np.abs(counts - 1 / 300).sum()


def test_reported_scores_are_log_probabilities(made: Made) -> None:
    found = made.model.generate(
        **alone(PROMPTS[0]),
        max_new_tokens=4,
        do_sample=False,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    ids = found.sequences[0].tolist()
    p = dense(made, ids)
    for step, scores in enumerate(found.scores):
        np.testing.assert_allclose(
            scores[0].double().exp().numpy(), p[4 + step], rtol=1e-3, atol=1e-7
        )


def test_trainer_evaluates_the_mixture(made: Made, tmp_path: Path) -> None:
    texts = [[0, 45, 67, 89, 120, 31], [0, 88, 45, 31, 67, 99]]
    rows = [{"input_ids": ids, "labels": ids} for ids in texts]
    arguments = transformers.TrainingArguments(
        tmp_path, per_device_eval_batch_size=2, report_to=[], use_cpu=True
    )
    found = transformers.Trainer(made.model, arguments, eval_dataset=rows).evaluate()
    wanted = [-np.log(dense(made, ids)[t, ids[t + 1]]) for ids in texts for t in range(5)]
    assert found["eval_loss"] == pytest.approx(np.mean(wanted), abs=1e-5)
