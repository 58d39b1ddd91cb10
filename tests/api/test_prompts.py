"""One reading of a prompt: `generate`, `explain` and the tokenizer agree, in a chat too."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from knnlm import KNNLM, Datastore, load_model
from knnlm.cli.main import run
from knnlm.errors import UsageError
from knnlm.models import LanguageModel
from knnlm.text import encode_chat, encode_prompt

TEMPLATE = (
    "{% for message in messages %}<|turn|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>{% endif %}"
)
SPELLED = "a <|end|>"


@pytest.fixture(scope="module")
def talker(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """The tiny model with a chat template, whose two special tokens take the place of others."""
    lm = load_model(tiny_model)
    folder = tmp_path_factory.mktemp("talker")
    tokenizer = copy.deepcopy(lm.tokenizer)
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = rules["model"]["vocab"]
    unused = sorted(vocabulary, key=vocabulary.get)[-2:]
    for old, new in zip(unused, ("<|turn|>", "<|end|>"), strict=True):
        number = vocabulary.pop(old)
        vocabulary[new] = number
        rules["model"]["merges"] = [
            merge for merge in rules["model"]["merges"] if old not in ("".join(merge), *merge)
        ]
        rules["added_tokens"].append(
            {**rules["added_tokens"][0], "id": number, "content": new, "special": True}
        )
    lm.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return load_model(folder)


@pytest.fixture(scope="module")
def model(
    talker: LanguageModel, texts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> KNNLM:
    store = Datastore.build(talker, texts["train"], tmp_path_factory.mktemp("chat") / "store")
    return KNNLM(store, lam=0.3, tau=1.0, k=8)


def special_ids(tokenizer: Any) -> tuple[int, int]:
    turn, end = tokenizer.convert_tokens_to_ids(["<|turn|>", "<|end|>"])
    return turn, end


def test_the_tokenizer_reads_a_text_as_generate_does(model: KNNLM) -> None:
    generation = model.generate(SPELLED, max_new_tokens=1)
    ids = model.tokenizer(SPELLED).input_ids
    assert (
        ids == list(generation.generated.prompt_tokens) == encode_prompt(model.tokenizer, SPELLED)
    )
    assert ids[0] == model.tokenizer.bos_token_id
    assert not set(special_ids(model.tokenizer)) & set(ids)
    assert ids.count(model.tokenizer.bos_token_id) == 1  # the one that it begins with
    assert model.tokenizer.decode(ids[1:]) == SPELLED


def test_explain_reads_it_so_too(model: KNNLM) -> None:
    explained = model.explain(SPELLED)
    assert len(explained) == len(model.tokenizer(SPELLED).input_ids) - 1
    assert "".join(token.text for token in explained.tokens) == SPELLED


def test_the_models_own_tokenizer_is_not_changed(model: KNNLM, talker: LanguageModel) -> None:
    _ = model.tokenizer
    assert special_ids(talker.tokenizer)[1] in talker.tokenizer(SPELLED).input_ids


def test_in_a_chat_only_the_template_has_special_tokens(model: KNNLM) -> None:
    turn, end = special_ids(model.tokenizer)
    ids = encode_chat(model.tokenizer, SPELLED)
    assert model.tokenizer.decode(ids) == f"<|turn|>{SPELLED}<|end|><|turn|>"
    assert (ids.count(turn), ids.count(end)) == (2, 1)
    generation = model.generate(SPELLED, chat=True, max_new_tokens=2)
    assert list(generation.generated.prompt_tokens) == ids
    assert str(generation) == generation.text
    assert len(generation.explain()) == len(generation.tokens)


def test_chat_templates_work_with_the_tokenizer_as_with_any(
    model: KNNLM, talker: LanguageModel
) -> None:
    messages = [{"role": "user", "content": "the cat"}]
    options = {"add_generation_prompt": True, "return_dict": False}
    plain = talker.tokenizer.apply_chat_template(messages, **options)
    assert model.tokenizer.apply_chat_template(messages, **options) == plain
    assert copy.deepcopy(model.tokenizer).apply_chat_template(messages, **options) == plain
    spelled = [{"role": "user", "content": SPELLED}]
    ids = model.tokenizer.apply_chat_template(spelled, **options)
    assert ids == encode_chat(model.tokenizer, SPELLED)
    changed = copy.deepcopy(model.tokenizer)
    changed.chat_template = "{{ messages[0].content }}<|end|>"
    _, end = special_ids(changed)
    assert changed.apply_chat_template(messages, **options)[-1] == end


def test_a_streamed_answer_does_not_repeat_the_message(model: KNNLM) -> None:
    pieces: list[str] = []
    generation = model.generate("the cat", chat=True, max_new_tokens=4, stream=pieces.append)
    assert "".join(pieces) == generation.text


def test_a_model_without_a_template_is_told(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    store = Datastore.build(tiny_model, texts["valid"], tmp_path / "store")
    with pytest.raises(UsageError, match="this model has no chat template: leave out `chat`"):
        KNNLM(store, lam=0.3, tau=1.0, k=8).generate("the cat", chat=True)


def test_the_command_answers(model: KNNLM, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(model.store.path), "the cat", "--chat", "--max-new-tokens", "3"]
    settings = ["--lambda", "0.3", "--tau", "1", "--k", "8"]
    assert run([*words, *settings, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["chat"] is True
    assert answer["text"] == model.generate("the cat", chat=True, max_new_tokens=3).text
    assert run([*words, *settings]) == 0
    assert capsys.readouterr().out == answer["text"] + "\n"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('begin with a system message') }}", "begin with a system message"),
        ("{{ messages[7].content }}", "refuses the message"),
        ("{% if", "refuses the message"),
        ("", "no chat template"),
        ("{% if false %}x{% endif %}", "is empty for this message"),
    ],
)
def test_a_template_that_fails_is_told_in_a_sentence(
    model: KNNLM, template: str, message: str
) -> None:
    changed = copy.deepcopy(model.tokenizer)
    changed.chat_template = template
    with pytest.raises(UsageError, match=message):
        encode_chat(changed, "the cat")
