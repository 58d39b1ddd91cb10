"""Help that reads well: short lines, an example for each verb, the words of the glossary."""

import re
import shlex
from typing import Any

import pytest
import typer

from knnlm.cli.main import app, run

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
NOT_OURS = re.compile(
    r"neighbour|normalis|colour|\bmask\b|\banew\b|\bwords? (?:of|in) the vocabulary|\bstate that\b"
    r"|\bthe store\b|\bstores\b|\bin the place of\b|\bmend\b|\brows?\b",
    re.IGNORECASE,
)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run([*words, "--help"]) == 0
    return capsys.readouterr().out


def test_the_verbs_are_these() -> None:
    verbs = (
        "demo train build index tune distill eval generate serve explore add forget compact info "
        "verify reproduce"
    )
    assert " ".join(COMMANDS) == verbs


def test_the_list_of_verbs_has_whole_sentences(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys)
    assert "Nearest-neighbor language models" in text
    listed = re.findall(r"^  ([a-z]+) +(\S.*)$", text.partition("Commands:")[2], re.MULTILINE)
    assert [verb for verb, _ in listed] == list(COMMANDS)
    for verb, sentence in listed:
        assert sentence[0].isupper(), verb
        assert sentence.endswith("."), verb
        assert not sentence.endswith("..."), verb
    assert run([]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_has_an_example_that_parses(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys, verb)
    assert "--json" in text
    example = re.search(r"^  Example: (knnlm .*)$", text, re.MULTILINE)
    assert example, text
    words = shlex.split(example[1])
    assert words[:2] == ["knnlm", verb]
    COMMANDS[verb].make_context(verb, words[2:])


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_is_plain(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, verb)
    assert not NOT_OURS.search(text), NOT_OURS.search(text)
    assert "list[" not in text or verb == "reproduce"
    for option in COMMANDS[verb].params:
        assert option.help, option.name
        assert option.help.endswith("."), f"{verb} {option.name}: {option.help}"
        assert not option.help.startswith(("Of ", "Nothing ")), f"{verb} {option.name}"
