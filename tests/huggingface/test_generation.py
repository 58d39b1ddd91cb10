"""Continuing a text: streamed, seeded, explained, and refused where it cannot be done."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from knnlm import KNNLM, Sampling, UsageError
from knnlm.cli.main import run
from knnlm.text.tokenizer import encode_prompt

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def store(tuned_store: Path) -> Path:
    return tuned_store


@pytest.fixture(scope="module")
def model(store: Path) -> KNNLM:
    return KNNLM(store)


def test_the_stream_is_the_text(model: KNNLM) -> None:
    pieces: list[str] = []
    found = model.generate("the cat", sampling=Sampling(max_new_tokens=8), stream=pieces.append)
    assert "".join(pieces) == "the cat" + found.text
    assert len(pieces) > 2
    beams: list[str] = []
    found = model.generate(
        "the cat", sampling=Sampling(max_new_tokens=8, beams=2), stream=beams.append
    )
    assert beams == ["the cat", found.text]
    assert len(found.tokens) == 8


def test_greedy_is_the_default_and_a_draw_depends_on_the_seed_alone(model: KNNLM) -> None:
    greedy = [
        model.generate("the cat", sampling=Sampling(max_new_tokens=6, seed=s)).text for s in (0, 1)
    ]
    assert greedy[0] == greedy[1]
    drawn = [
        model.generate("the cat", sampling=Sampling(max_new_tokens=6, seed=s, temperature=3.0)).text
        for s in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_base_lm_beside_it_is_the_base_lm(model: KNNLM) -> None:
    both = model.generate("the cat", sampling=Sampling(max_new_tokens=6), compare=True)
    import torch

    ids = torch.tensor([encode_prompt(model.tokenizer, "the cat")])
    alone = model.to_transformers().base.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False, pad_token_id=0
    )
    assert both.base_text == model.tokenizer.decode(
        alone[0, ids.shape[1] :], skip_special_tokens=True
    )
    assert both.base_text != both.text


def test_each_token_is_explained_by_the_mixture_and_its_neighbors(model: KNNLM) -> None:
    generation = model.generate("the cat", max_new_tokens=5)
    explanation = generation.explain()
    lam = model.settings.lam
    assert len(explanation) == 5
    assert "".join(token.text for token in explanation.tokens) == generation.text
    for token in explanation.tokens:
        mixed = (1 - lam) * np.exp(token.lm_logprob) + lam * np.exp(token.component_logprob)
        assert np.exp(token.mixed_logprob) == pytest.approx(mixed, rel=1e-5)
        assert [h.weight for h in token.neighbors] == sorted(
            (h.weight for h in token.neighbors), reverse=True
        )
        assert all(h.document == "train.txt" for h in token.neighbors)
        assert all(h.is_target == (h.token == token.text) for h in token.neighbors)


def test_neighbors_stand_in_their_original_text(model: KNNLM, texts: dict[str, Path]) -> None:
    original = texts["train"].read_text()
    explanation = model.generate("a grey", max_new_tokens=4).explain()
    assert len(explanation) == 4
    for token in explanation.tokens:
        assert token.neighbors
        for neighbor in token.neighbors:
            assert neighbor.before + neighbor.token in original


def test_only_what_fits_is_generated_and_it_is_said(
    model: KNNLM, caplog: pytest.LogCaptureFixture
) -> None:
    found = model.generate("the cat sat", sampling=Sampling(max_new_tokens=500))
    prompt = len(encode_prompt(model.tokenizer, "the cat sat"))
    assert len(found.tokens) == 25 - prompt  # the last is not read
    assert f"only {25 - prompt} new tokens fit behind this prompt" in caplog.text


def test_a_prompt_longer_than_the_model_is_refused(model: KNNLM) -> None:
    with pytest.raises(
        UsageError, match=r"the prompt has \d+ tokens but the model reads at most 24: shorten it"
    ):
        model.generate("the cat sat on a mat " * 20)


def test_a_prompt_of_exactly_the_models_length_has_room_for_one_token(model: KNNLM) -> None:
    words = "the cat sat on a mat " * 20
    ids = encode_prompt(model.tokenizer, words)[:24]
    prompt = model.tokenizer.decode(ids[1:])
    assert len(encode_prompt(model.tokenizer, prompt)) == 24
    assert len(model.generate(prompt, max_new_tokens=9).explain()) == 1


def test_nothing_is_streamed_of_a_prompt_that_is_refused(model: KNNLM) -> None:
    pieces: list[str] = []
    with pytest.raises(UsageError, match="the prompt is not valid UTF-8"):
        model.generate("caf\udce9", stream=pieces.append)
    assert pieces == []


def test_the_models_own_generation_settings_are_not_slipped_in(store: Path) -> None:
    plain, changed = KNNLM(store), KNNLM(store)
    changed.to_transformers().generation_config.no_repeat_ngram_size = 1
    changed.to_transformers().base.generation_config.no_repeat_ngram_size = 1
    assert plain.generate("the cat").text == changed.generate("the cat").text


def test_without_neighbors_both_sides_of_a_comparison_are_one(store: Path) -> None:
    penalized = Sampling(max_new_tokens=12, repetition_penalty=1.5)
    both = KNNLM(store, lam=0.0).generate("the cat", sampling=penalized, compare=True)
    assert both.text == both.base_text


def test_the_tokenizer_begins_texts_as_the_datastores_documents_begin(model: KNNLM) -> None:
    assert model.tokenizer("the cat").input_ids == encode_prompt(model.tokenizer, "the cat")


def test_an_empty_pipe_is_an_error(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["generate", str(store), "-"]) == 2
    assert "nothing came from stdin" in capsys.readouterr().err


def test_an_empty_prompt_begins_a_document(model: KNNLM) -> None:
    assert len(model.generate("", sampling=Sampling(max_new_tokens=3)).tokens) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_new_tokens": 0},
        {"temperature": 0.0},
        {"top_p": 1.5},
        {"top_k": 0},
        {"beams": 0},
        {"seed": -1},
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_the_verb_streams_prompt_and_text(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", str(store), "the cat", "--max-new-tokens", "5"]) == 0
    plain = capsys.readouterr().out
    assert run(["generate", str(store), "the cat", "--max-new-tokens", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert plain == f"the cat{found['text']}\n"
    assert found["new_tokens"] == 5
    assert found["base_text"] is None


def test_the_verb_compares_and_explains(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["generate", str(store), "the cat", "--max-new-tokens", "3", "--compare", "--explain"]
    assert run(line) == 0
    shown = capsys.readouterr().out
    assert "base LM" in shown
    assert "kNN-LM" in shown
    assert shown.count("P ") >= 3
    assert "(train.txt)" in shown
    assert run([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["explained"]) == 3
    assert isinstance(found["base_text"], str)


def test_settings_are_overridden(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--lambda",
        "0",
        "--tau",
        "2.5",
        "--k",
        "3",
        "--compare",
        "--max-new-tokens",
        "6",
    ]
    assert run(["generate", str(store), "the cat", *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["lambda"], found["temperature"], found["k"]) == (0, 2.5, 3)
    assert found["text"] == found["base_text"]  # λ = 0 is the base LM


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--lambda", "2"], 2, "lambda 2.0 is out of range"),
        (["--tau", "0"], 2, "retrieval temperature 0.0 is out of range"),
        (["--k", "0"], 2, "k = 0 is out of range"),
        (["--top-p", "7"], 2, "--top-p 7.0 is out of range"),
        (
            ["--index", "none"],
            1,
            "or search with --exact",
        ),
        (["--metric", "cosine"], 2, "unknown metric 'cosine'"),
        (["--key", "foo"], 2, "unknown key 'foo'"),
        (["--metric", "ip"], 1, "first, or give --lambda and --tau"),
        (["--device", "cuda:99"], 2, "device cuda:99 is not on this machine"),
        (["--device", "toaster"], 2, "unknown device 'toaster'"),
        (["--model", "nowhere"], 1, "cannot open model nowhere"),
    ],
)
def test_wrong_options_get_a_sentence(
    store: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, message: str
) -> None:
    assert run(["generate", str(store), "the cat", *options]) == code
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("knnlm: ")
    assert message in said
