"""/v1/completions and /v1/chat/completions, asked by the real OpenAI client."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import torch

from knnlm import KNNLM
from knnlm.huggingface import Sampling
from knnlm.text import decode_continuation, encode_prompt
from tests.integrations.server.asking import ask

pytestmark = pytest.mark.pipeline

PROMPT = "the cat sat on a"


def texts(completion: Any) -> list[str]:
    return [choice.text for choice in completion.choices]


def test_a_completion_is_what_generate_writes(client: openai.OpenAI, knnlm_model: KNNLM) -> None:
    for prompt in (PROMPT, "number 3 has", "it rained"):
        wanted = knnlm_model.generate(prompt, sampling=Sampling(max_new_tokens=12)).text
        found = client.completions.create(model="tiny", prompt=prompt, max_tokens=12, temperature=0)
        assert texts(found) == [wanted]
        assert found.usage is not None
        assert found.usage.completion_tokens == 12


def test_many_at_once_are_what_each_is_alone(client: openai.OpenAI) -> None:
    """Prompts of different lengths share a batch; each is continued as if it were alone."""
    prompts = [PROMPT[:length] for length in (1, 4, 9, 16)] + ["number 5", "grey dogs " * 8]
    together = client.completions.create(model="tiny", prompt=prompts, max_tokens=10, temperature=0)
    alone = [
        client.completions.create(model="tiny", prompt=prompt, max_tokens=10, temperature=0)
        for prompt in prompts
    ]
    assert texts(together) == [texts(each)[0] for each in alone]


def test_a_stream_is_the_same_text_in_pieces(client: openai.OpenAI) -> None:
    how: dict[str, Any] = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12, "temperature": 0}
    whole = client.completions.create(**how)
    pieces = list(
        client.completions.create(**how, stream=True, stream_options={"include_usage": True})
    )
    assert "".join(piece.choices[0].text for piece in pieces[:-1]) == texts(whole)[0]
    assert len(pieces) > 4
    assert pieces[-2].choices[0].finish_reason == "length"
    assert pieces[-1].choices == []
    assert pieces[-1].usage == whole.usage


def test_token_ids_and_lists_are_prompts_too(client: openai.OpenAI, knnlm_model: KNNLM) -> None:
    ids = encode_prompt(knnlm_model.tokenizer, PROMPT)
    how: dict[str, Any] = {"model": "tiny", "max_tokens": 6, "temperature": 0}
    wanted = texts(client.completions.create(prompt=PROMPT, **how))
    assert texts(client.completions.create(prompt=ids, **how)) == wanted
    assert texts(client.completions.create(prompt=[ids, ids], **how)) == wanted * 2
    assert texts(client.completions.create(prompt=[PROMPT, PROMPT], **how)) == wanted * 2


def test_echo_and_logprobs_are_the_models_own(client: openai.OpenAI, knnlm_model: KNNLM) -> None:
    found: Any = client.completions.create(
        model="tiny", prompt=PROMPT, max_tokens=5, temperature=0, echo=True, logprobs=3
    ).choices[0]
    assert found.text.startswith(PROMPT)
    logs = found.logprobs
    assert logs.token_logprobs[0] is None
    assert "".join(logs.tokens).endswith(found.text)
    for token, offset in list(zip(logs.tokens, logs.text_offset, strict=True))[1:]:
        assert found.text[offset:].startswith(token)
    ids = encode_prompt(knnlm_model.tokenizer, PROMPT)
    new = knnlm_model.generate(PROMPT, sampling=Sampling(max_new_tokens=5)).tokens
    tokens = torch.tensor([*ids, *new])
    wanted = knnlm_model.to_transformers().score_tokens(tokens).mixed
    np.testing.assert_allclose(np.array(logs.token_logprobs[1:], float), wanted, atol=1e-5)
    for chosen, top in zip(logs.token_logprobs[-5:], logs.top_logprobs[-5:], strict=True):
        assert top is not None
        assert max(top.values()) == pytest.approx(chosen)  # greedy: the likeliest was chosen
        assert 1 <= len(top) <= 3


def test_n_draws_differ_and_a_seed_repeats_them(client: openai.OpenAI) -> None:
    how: dict[str, Any] = {"model": "tiny", "prompt": PROMPT, "max_tokens": 8, "n": 4}
    first, again = (texts(client.completions.create(**how, seed=5)) for _ in range(2))
    assert first == again
    assert len(set(first)) > 1
    assert texts(client.completions.create(**how, seed=6)) != first


def test_draws_follow_p(client: openai.OpenAI, knnlm_model: KNNLM) -> None:
    """One token drawn many times comes as often as P says."""
    ids = torch.tensor([encode_prompt(knnlm_model.tokenizer, PROMPT)])
    with torch.inference_mode():
        p = knnlm_model.to_transformers()(input_ids=ids).logits[0, -1].exp()
    likeliest = int(p.argmax())
    wanted = decode_continuation(knnlm_model.tokenizer, ids[0].tolist(), [likeliest])
    drawn = [
        text
        for seed in range(20)
        for text in texts(
            client.completions.create(
                model="tiny", prompt=PROMPT, max_tokens=1, n=16, seed=100 * seed
            )
        )
    ]
    share = sum(text == wanted for text in drawn) / len(drawn)
    assert abs(share - float(p[likeliest])) < 4 * (0.25 / len(drawn)) ** 0.5


def test_a_text_ends_before_a_stop_string(client: openai.OpenAI) -> None:
    how: dict[str, Any] = {"model": "tiny", "prompt": PROMPT, "max_tokens": 20, "temperature": 0}
    whole = texts(client.completions.create(**how))[0]
    stop = whole[5:9]
    stopped = client.completions.create(**how, stop=[stop, "never there"]).choices[0]
    assert stopped.text == whole[: whole.index(stop)]
    assert stopped.finish_reason == "stop"
    streamed = client.completions.create(**how, stop=stop, stream=True)
    assert "".join(piece.choices[0].text for piece in streamed) == stopped.text


def test_settings_are_those_of_the_request(client: openai.OpenAI, server_store: Path) -> None:
    def logs(**knn: Any) -> list[float]:
        found = client.completions.create(
            model="tiny",
            prompt=PROMPT,
            max_tokens=0,
            echo=True,
            logprobs=0,
            extra_body={"knn": knn},
        )
        given = found.choices[0].logprobs
        assert given is not None
        assert given.token_logprobs is not None
        return [float(log) for log in given.token_logprobs[1:] if log is not None]

    for settings in ({"lambda": 0.9}, {"tau": 0.5}, {"k": 3}, {"lambda": 0.2, "k": 7, "tau": 2.0}):
        names = {"lam": settings.get("lambda", 0.4)}
        names |= {name: value for name, value in settings.items() if name != "lambda"}
        model = KNNLM(server_store, **names)  # type: ignore[arg-type]
        tokens = torch.tensor(encode_prompt(model.tokenizer, PROMPT))
        wanted = model.to_transformers().score_tokens(tokens).mixed
        np.testing.assert_allclose(logs(**settings), wanted, atol=1e-5)


def test_the_base_lm_is_a_model_of_its_own(client: openai.OpenAI, knnlm_model: KNNLM) -> None:
    assert [model.id for model in client.models.list()] == ["tiny", "tiny:base"]
    how: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 10, "temperature": 0}
    wanted = knnlm_model.generate(
        PROMPT, sampling=Sampling(max_new_tokens=10), compare=True
    ).base_text
    assert texts(client.completions.create(model="tiny:base", **how)) == [wanted]
    nothing = {"knn": {"lambda": 0}}
    assert texts(client.completions.create(model="tiny", **how, extra_body=nothing)) == [wanted]


def test_each_new_token_can_say_where_it_comes_from(url: str) -> None:
    body = {"prompt": "number 3 has", "max_tokens": 4, "temperature": 0, "knn": {"sources": 3}}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    choice = json.load(urllib.request.urlopen(request))["choices"][0]
    assert len(choice["knn"]) == 4
    for token in choice["knn"]:
        assert len(token["neighbors"]) == 3
        weights = [neighbor["weight"] for neighbor in token["neighbors"]]
        assert weights == sorted(weights, reverse=True)
        for neighbor in token["neighbors"]:
            assert neighbor["document"].endswith(".txt")
            assert neighbor["is_target"] == (neighbor["token"] == token["id"])


def test_a_chat_is_answered_with_the_template(client: openai.OpenAI, knnlm_model: KNNLM) -> None:
    messages: Any = [
        {"role": "system", "content": "speak of cats"},
        {"role": "user", "content": [{"type": "text", "text": "the mat"}]},
    ]
    prompt = "system: speak of cats\nuser: the mat\nassistant:"
    found = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=8, temperature=0, logprobs=True, top_logprobs=2
    )
    wanted = knnlm_model.generate(prompt, sampling=Sampling(max_new_tokens=8)).text
    choice = found.choices[0]
    assert choice.message.content == wanted
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert "".join(token.token for token in choice.logprobs.content) == wanted
    assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)
    pieces = client.chat.completions.create(
        model="tiny", messages=messages, max_completion_tokens=8, temperature=0, stream=True
    )
    deltas = [piece.choices[0].delta for piece in pieces]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == wanted


def test_offsets_behind_letters_of_several_tokens(client: openai.OpenAI) -> None:
    prompt = "a \N{DOG FACE} sat on \N{CJK UNIFIED IDEOGRAPH-6F22} mats"
    found = client.completions.create(
        model="tiny", prompt=prompt, max_tokens=0, echo=True, logprobs=1
    )
    logs = found.choices[0].logprobs
    assert logs is not None
    assert logs.tokens is not None
    assert logs.text_offset is not None
    assert "".join(logs.tokens[1:]) == prompt
    for token, offset in list(zip(logs.tokens, logs.text_offset, strict=True))[1:]:
        assert prompt[offset:].startswith(token)


def test_null_is_as_if_it_were_left_out(url: str, client: openai.OpenAI) -> None:
    left_open = dict.fromkeys(
        ("temperature", "top_p", "n", "stream", "presence_penalty", "logit_bias", "seed", "knn")
    )
    body = {"prompt": PROMPT, "max_tokens": 4, "echo": None, **left_open, "seed": 3}
    nulls = ask(url, "/v1/completions", body)
    assert nulls.status == 200
    plain = client.completions.create(model="tiny", prompt=PROMPT, max_tokens=4, seed=3)
    assert nulls.json["choices"][0]["text"] == plain.choices[0].text
    refused = ask(url, "/v1/completions", {"prompt": None})
    assert refused.status == 400
    assert refused.message == "prompt: Field required"
