"""What clients rely on beyond the text: names of tokens, letters in parts, seeds, ends."""

from collections.abc import Callable
from typing import Any

import openai
import pytest

from knnlm import KNNLM
from knnlm.text import encode_prompt
from tests.integrations.server.asking import ask

pytestmark = pytest.mark.pipeline

HALF = "\N{REPLACEMENT CHARACTER}"


def completed(url: str, **fields: Any) -> dict[str, Any]:
    answer = ask(url, "/v1/completions", {"prompt": "the cat", "max_tokens": 4, **fields})
    assert answer.status == 200, answer.body
    choice: dict[str, Any] = answer.json["choices"][0]
    return choice


def forced(token: int) -> dict[str, Any]:
    """Fields that make every new token this one."""
    return {"logit_bias": {str(token): 100}, "temperature": 0}


@pytest.fixture
def dog(knnlm_model: KNNLM) -> list[int]:
    """A letter of four tokens."""
    tokens = encode_prompt(knnlm_model.tokenizer, "🐶")[1:]
    assert len(tokens) == 4
    return tokens


def test_a_prompt_that_ends_with_the_replacement_character_is_not_repeated(url: str) -> None:
    plain = completed(url, prompt=f"the cat{HALF}", **forced(65))["text"]
    assert not plain.startswith(HALF)


def test_the_letter_that_tokens_began_is_completed_in_echo_too(url: str, dog: list[int]) -> None:
    for echo, text in ((False, "🐶"), (True, "🐶")):
        choice = completed(
            url, prompt=dog[:3], max_tokens=1, echo=echo, logprobs=1, **forced(dog[3])
        )
        assert choice["text"] == text
        assert "".join(choice["logprobs"]["tokens"]) == text
    assert completed(url, prompt=dog[:3], max_tokens=0, echo=True)["text"] == HALF


def test_names_of_tokens_join_to_the_text_even_in_half_a_letter(url: str, dog: list[int]) -> None:
    choice = completed(url, max_tokens=2, logprobs=1, **forced(dog[0]))
    assert choice["text"].endswith(HALF)
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]


def test_logprobs_have_what_ended_the_text_too(url: str, knnlm_model: KNNLM) -> None:
    """As in OpenAI's API: the end token, and the tokens of a stop string."""
    tokenizer = knnlm_model.tokenizer
    ended = completed(url, logprobs=0, **forced(tokenizer.eos_token_id))
    assert (ended["text"], ended["finish_reason"]) == ("", "stop")
    assert ended["logprobs"]["tokens"] == [tokenizer.eos_token]
    whole = completed(url, logprobs=0, temperature=0)
    stop = whole["logprobs"]["tokens"][2]
    stopped = completed(url, logprobs=0, temperature=0, stop=stop)
    joined = "".join(stopped["logprobs"]["tokens"])
    assert joined == stopped["text"] + stop
    assert whole["text"] == "".join(whole["logprobs"]["tokens"])


@pytest.mark.parametrize("top", [0, 1, 5])
def test_the_chosen_token_is_among_the_likeliest(url: str, top: int) -> None:
    logs = completed(url, logprobs=top, temperature=2, seed=7, max_tokens=12)["logprobs"]
    for name, log, likely in zip(
        logs["tokens"], logs["token_logprobs"], logs["top_logprobs"], strict=True
    ):
        assert likely[name] >= log
        assert len(likely) <= top + 1


def test_log_zero_is_a_number(url: str, knnlm_model: KNNLM) -> None:
    """At λ = 1 a token that no neighbor voted for has probability 0."""
    unseen = encode_prompt(knnlm_model.tokenizer, "é")[1]
    logs = completed(url, logprobs=0, knn={"lambda": 1}, max_tokens=1, **forced(unseen))["logprobs"]
    assert logs["token_logprobs"][0] <= 0


def test_the_bytes_of_half_a_letter_are_unknown(url: str, dog: list[int]) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "logprobs": True}
    answer = ask(url, "/v1/chat/completions", {**body, **forced(dog[0])}).json
    (token,) = answer["choices"][0]["logprobs"]["content"]
    assert token["token"] == HALF
    assert token["bytes"] is None


def test_an_echo_without_new_tokens_says_that_it_has_ended(client: openai.OpenAI) -> None:
    pieces = list(
        client.completions.create(
            model="tiny", prompt=["a", "the cat"], max_tokens=0, echo=True, stream=True
        )
    )
    assert [piece.choices[0].finish_reason for piece in pieces] == ["length", "length"]


def test_usage_is_null_until_the_end(client: openai.OpenAI) -> None:
    how: Any = {"model": "tiny", "prompt": "a", "max_tokens": 3, "stream": True}
    told = list(client.completions.create(**how, stream_options={"include_usage": True}))
    assert all("usage" in piece.model_fields_set for piece in told)
    assert [piece.usage is None for piece in told] == [True] * (len(told) - 1) + [False]
    assert all("usage" not in p.model_fields_set for p in client.completions.create(**how))


def test_seeds_give_texts_that_differ_from_each_other(url: str) -> None:
    how: Any = {"max_tokens": 12, "n": 2, "prompt": ["a", "a"]}
    found = {}
    for seed in (-1, 0, 1):
        bodies = [ask(url, "/v1/completions", {**how, "seed": seed}).json for _ in range(2)]
        first, second = ([c["text"] for c in body["choices"]] for body in bodies)
        assert first == second
        found[seed] = first
    texts = [text for each in found.values() for text in each]
    assert len(set(texts)) == len(texts) == 12


def test_one_model_can_be_asked_for(client: openai.OpenAI) -> None:
    assert client.models.retrieve("tiny:base").id == "tiny:base"
    with pytest.raises(openai.NotFoundError, match="there is no model 'other' here"):
        client.models.retrieve("other")


def test_a_name_may_have_an_owner_as_on_the_hub(start: Callable[..., Any]) -> None:
    with start(name="org/mod") as url:
        for path in ("org/mod", "org%2Fmod", "org/mod:base", "org%2Fmod:base"):
            answer = ask(url, f"/v1/models/{path}")
            assert answer.status == 200
            assert answer.json["id"] == path.replace("%2F", "/")
        assert ask(url, "/v1/models/org").message == "there is no model 'org' here: see /v1/models"
        asked = {"prompt": "a", "max_tokens": 1, "model": "org/mod"}
        assert ask(url, "/v1/completions", asked).json["model"] == "org/mod"


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/v1/completions", {"model": "tiny:base", "knn": {"lambda": 0.5}}, "the base LM alone"),
        ("/v1/completions", {"stream_options": {"include_usage": True}}, "needs stream"),
        ("/v1/completions", {"max_token": 3}, "did you mean max_tokens?"),
        ("/v1/completions", {"knn": {"lam": 0.5}}, "knn.lam: there is no such field here, did"),
        ("/v1/completions", {"x" * 5000: 1}, "there is no such field here, see /openapi.json"),
        ("/v1/completions", {"logit_bias": {"٣": 1}}, "no token of this model"),
        ("/api/score", {"knn": {"sources": 2}}, "knn.sources: there is no such field here"),
    ],
)
def test_nothing_is_silently_ignored(
    url: str, path: str, fields: dict[str, Any], words: str
) -> None:
    text = {"text": "a cat"} if path == "/api/score" else {"prompt": "a"}
    answer = ask(url, path, {**text, **fields})
    assert answer.status == 400
    assert words in answer.message
    assert len(answer.message) < 300
