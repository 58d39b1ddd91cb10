"""A text that is in the datastore is recognized, whatever was done to its surface; other text is
not taken for it."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm import KNNLM, Datastore, Folder, UsageError
from knnlm.evaluation import overlap
from knnlm.evaluation.letters import letters_of
from knnlm.evaluation.overlap import RUN, find_overlap
from knnlm.text.tokenizer import decode_documents, train_tokenizer
from tests.conftest import WORDS


def prose(seed: int, words: int) -> str:
    chance = random.Random(seed)
    sentences = [" ".join(chance.choices(WORDS, k=9)).capitalize() for _ in range(words // 9)]
    return ".\n".join(sentences) + ".\n"


TRAIN = prose(1, 3600)
LINES = TRAIN.splitlines(keepends=True)


LONG_LINES = [f"{a.strip()} {b}" for a, b in zip(LINES[::2], LINES[1::2], strict=True)]
FULL_WIDTH = {code: code - 0x21 + 0xFF01 for code in range(0x21, 0x7F)}


def rewrapped(text: str) -> str:
    words = text.split()
    return "\n".join(" ".join(words[i : i + 5]) for i in range(0, len(words), 5)) + "\n"


LEAKS: dict[str, Callable[[], tuple[str, bytes]]] = {
    "the file itself": lambda: ("a.txt", TRAIN.encode()),
    "Windows line ends": lambda: ("a.txt", TRAIN.replace("\n", "\r\n").encode()),
    "old Mac line ends": lambda: ("a.txt", TRAIN.replace("\n", "\r").encode()),
    "a byte-order mark": lambda: ("a.txt", b"\xef\xbb\xbf" + TRAIN.encode()),
    "one line more": lambda: ("a.txt", (TRAIN + "And one new line at the end.\n").encode()),
    "one line less": lambda: ("a.txt", "".join(LINES[1:]).encode()),
    "JSON lines": lambda: ("a.jsonl", json.dumps({"text": TRAIN}).encode()),
    "half of it": lambda: ("a.txt", "".join(LINES[: len(LINES) // 2]).encode()),
    "its second half": lambda: ("a.md", "".join(LINES[len(LINES) // 2 :]).encode()),
    "a page of it": lambda: ("a.txt", "".join(LINES[100:120]).encode()),
    "quoted": lambda: ("a.txt", "".join(f"> {line}" for line in LINES).encode()),
    "indented": lambda: ("a.txt", "".join(f"    {line}" for line in LINES).encode()),
    "wrapped otherwise": lambda: ("a.txt", rewrapped(TRAIN).encode()),
    "twice": lambda: ("a.txt", (TRAIN + TRAIN).encode()),
    "a line for each document": lambda: (
        "a.jsonl",
        "\n".join(
            json.dumps({"text": "".join(LINES[i : i + 9])}) for i in range(0, 360, 9)
        ).encode(),
    ),
    "in the middle of new text": lambda: (
        "a.txt",
        (prose(7, 1800) + TRAIN + prose(8, 900)).encode(),
    ),
    "line numbers": lambda: (
        "a.txt",
        "".join(f"{number:6d}\t{line}" for number, line in enumerate(LINES)).encode(),
    ),
    "a table": lambda: (
        "a.txt",
        "".join(f'{number},"{line.strip()}"\n' for number, line in enumerate(LINES)).encode(),
    ),
    "its lines in another order": lambda: (
        "a.txt",
        "".join(random.Random(3).sample(LONG_LINES, len(LONG_LINES))).encode(),
    ),
    "a record for each line": lambda: (
        "a.jsonl",
        "\n".join(json.dumps({"text": line}) for line in LONG_LINES).encode(),
    ),
    "every twentieth word replaced": lambda: (
        "a.txt",
        " ".join(
            "xylophone" if number % 20 == 19 else word for number, word in enumerate(TRAIN.split())
        ).encode(),
    ),
    "no-break spaces": lambda: ("a.txt", TRAIN.replace(" ", "\u00a0").encode()),
    "a word for each line": lambda: ("a.txt", "\n".join(TRAIN.split()).encode()),
    "no spaces": lambda: ("a.txt", TRAIN.replace(" ", "").encode()),
    "soft hyphens": lambda: ("a.txt", TRAIN.replace("o", "o\u00ad").encode()),
    "full-width letters": lambda: ("a.txt", TRAIN.translate(FULL_WIDTH).encode()),
    "upper case": lambda: ("a.txt", TRAIN.upper().encode()),
    "a notebook": lambda: ("a.ipynb", json.dumps({"cells": [{"source": LINES}]}).encode()),
    "HTML": lambda: ("a.html", f"<html><body><p>{TRAIN}</p></body></html>".encode()),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Datastore:
    folder = tmp_path_factory.mktemp("overlap")
    (folder / "train.txt").write_text(TRAIN)
    return Datastore.build(tiny_model, folder / "train.txt", folder / "store", keys="ffn")


@pytest.mark.parametrize("leak", LEAKS)
def test_a_copy_is_refused(store: Datastore, tmp_path: Path, leak: str) -> None:
    name, data = LEAKS[leak]()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match="in the datastore, where every token retrieves itself"):
        KNNLM(store, lam=0.5, tau=1.0).evaluate(tmp_path / name)


@pytest.mark.pipeline
def test_whoever_means_it_may(store: Datastore, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TRAIN)
    result = KNNLM(store, lam=0.5, tau=1e-3).evaluate(tmp_path / "a.txt", allow_overlap=True)
    assert result.interp_ppl < 20 < result.base_ppl
    assert result.overlap == result.as_json()["overlap"] == pytest.approx(1)
    beware = "beware: 100% of this text is in the datastore and retrieves itself"
    assert beware in str(result)
    assert beware in result._repr_html_()
    with pytest.raises(UsageError, match="a.txt is in the datastore"):  # not remembered
        KNNLM(store, lam=0.5, tau=1e-3).evaluate(tmp_path / "a.txt")


@pytest.mark.pipeline
def test_other_text_of_the_same_words_is_taken(
    store: Datastore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "b.txt").write_text(prose(2, 1800))
    result = KNNLM(store, lam=0.5, tau=1.0).evaluate(tmp_path / "b.txt")
    assert result.tokens > 1000
    assert result.overlap is None
    assert "beware" not in str(result)
    assert "in the datastore" not in caplog.text


def test_short_documents_are_compared_as_a_whole(tmp_path: Path, tiny_model: Path) -> None:
    rows = [prose(seed, 9) for seed in range(200)]
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps({"text": r}) for r in rows))
    (tmp_path / "leak.jsonl").write_text("\n".join(json.dumps({"text": r}) for r in rows[50:90]))
    new = [prose(seed, 9) for seed in range(1000, 1040)]
    (tmp_path / "new.jsonl").write_text("\n".join(json.dumps({"text": r}) for r in new))
    store = Datastore.build(tiny_model, tmp_path / "train.jsonl", tmp_path / "store", keys="ffn")
    model = KNNLM(store, lam=0.5, tau=1.0)
    with pytest.raises(UsageError, match=r"100% of the text \(leak.jsonl.* and others\) is in the"):
        model.evaluate(tmp_path / "leak.jsonl")
    assert model.evaluate(tmp_path / "new.jsonl").tokens > 0


def test_copies_inside_a_folder_are_left_out_of_its_splits(
    tmp_path: Path, tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(40):
        (docs / f"{number}.md").write_text(prose(number, 180))
    for number in range(12):
        (docs / f"copy{number}.md").write_text(prose(0, 360))
    folder = Folder(docs, split=(50, 25, 25))
    store = Datastore.build(tiny_model, folder, tmp_path / "store", keys="ffn")
    stored = {document.name for document in store.entries.documents}
    assert any(name.startswith("copy") for name in stored)
    queries = store.queries(split="valid")
    names = {document.name for document in queries.documents}
    assert names
    assert not names & stored
    assert not any(name.startswith("copy") for name in names)
    assert "in the datastore and left out" in caplog.text


@given(
    st.lists(st.text("abcd .\n7", max_size=40), max_size=5),
    st.lists(st.text("abcd .\n7", max_size=80), max_size=5),
)
def test_shared_runs_are_those_of_a_search_by_hand(text: list[str], stored: list[str]) -> None:
    plain = [[letter for letter in document if letter in "abcd"] for document in text]
    known = [[letter for letter in document if letter in "abcd"] for document in stored]
    runs = {tuple(each[i : i + 4]) for each in known for i in range(len(each) - 3)}
    shared = 0
    for each in plain:
        inside = {
            start + offset
            for start in range(len(each) - 3)
            if tuple(each[start : start + 4]) in runs
            for offset in range(4)
        }
        shared += len(each) if 0 < len(each) < 4 and each in known else len(inside)
    letters = sum(map(len, plain))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "RUN", 4)
        # documents without a letter have a test of their own
        spoken = [document for document, each in zip(text, plain, strict=True) if each]
        patch.setattr(overlap, "mostly_digits", lambda _: False)
        counted = find_overlap(spoken, stored)
    assert counted.share == pytest.approx(shared / max(1, letters))


@pytest.mark.pipeline
def test_the_refusal_names_documents_that_share_passages(store: Datastore, tmp_path: Path) -> None:
    for number in range(5):
        passages = "".join(LINES[20 * number : 20 * number + 3 * number])
        (tmp_path / f"{number}.txt").write_text(prose(20 + number, 90) + passages)
    (tmp_path / "new.txt").write_text(prose(30, 90))
    with pytest.raises(UsageError) as refused:
        KNNLM(store, lam=0.5, tau=1.0).evaluate(tmp_path)
    assert "(4.txt, 3.txt, 2.txt and others) is in the datastore" in str(refused.value)
    assert "itself: give another text, or allow it with `allow_overlap`" in str(refused.value)


@pytest.mark.pipeline
def test_a_part_of_the_datastores_own_text_is_not_called_a_wrong_choice(
    tmp_path: Path, tiny_model: Path
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(20):
        (docs / f"{number}.txt").write_text(TRAIN + f"And page {number}.\n")
    store = Datastore.build(
        tiny_model, Folder(docs, split=(60, 20, 20)), tmp_path / "store", keys="ffn"
    )
    with pytest.raises(UsageError) as refused:
        KNNLM(store, lam=0.5, tau=1.0).evaluate()
    assert re.search(r"^\d+\.txt, .* in the datastore", str(refused.value))
    assert (
        "a part of the datastore's own text, so build again without the copies, give another "
        in (str(refused.value))
    )


def test_runs_do_not_cross_documents() -> None:
    text = "".join(random.Random(0).choices("abcdefgh", k=2 * RUN))
    halves = [text[: RUN // 2], text[RUN // 2 : RUN]]
    assert find_overlap(halves, [text]).share == 0
    assert find_overlap([text[:RUN]], halves).share == 0
    assert find_overlap([text[:RUN]], [text]).share == 1


def test_letters_are_what_layout_does_not_change() -> None:
    plain = "".join(map(chr, letters_of("The ﬁne cat, 42 dogs!\n\tand Ａ \u00adÜber-Katze")))
    assert plain == "thefinecatdogsandaüberkatze"
    assert len(letters_of("a1b22", digits=True)) == 5
    assert len(letters_of("\ufffd \ud800 .:- 17")) == 0


ALPHABETS = {
    "Chinese": "".join(chr(0x4E00 + 7 * n) for n in range(300)),
    "Cyrillic": "".join(chr(0x430 + n % 32) for n in range(200)),
    "emoji": "".join(chr(0x1F600 + n) for n in range(60)),
    "digits": "0123456789",
    "punctuation": ".,;:!?-()[]",
}


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_any_script_is_compared(alphabet: str) -> None:
    """With a tokenizer that knows no more than the bytes of most of these."""
    tokenizer = train_tokenizer(["the grey cat looked at a dog " * 50], 300)
    chance = random.Random(0)
    texts = [
        " ".join("".join(chance.choices(ALPHABETS[alphabet], k=5)) for _ in range(100))
        for _ in range(4)
    ]
    tokens = [np.array(tokenizer(text, add_special_tokens=False).input_ids) for text in texts]
    first, *others = decode_documents(tokenizer, tokens)
    stored = [first, others[0]]
    assert find_overlap([first], stored).large
    assert not find_overlap([others[1]], stored).large
