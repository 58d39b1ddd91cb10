"""The texts of an experiment."""

import json
from pathlib import Path

import pytest

from knnlm.experiments.texts import HubArticles, Portions, open_texts
from knnlm.text.hub import HubDataset


def test_lines_of_the_hub_are_joined_into_articles(tmp_path: Path) -> None:
    lines = [
        "",
        " = One = \n",
        "",
        " first text \n",
        " = = Part = = \n",
        " more \n",
        "",
        " = Two = \n",
        "",
        " second \n",
    ]
    rows = "\n".join(json.dumps({"text": line}) for line in lines)
    (tmp_path / "train.jsonl").write_text(rows + "\n")
    joined = list(HubArticles(HubDataset(str(tmp_path)).open("train")))
    assert [d.name.partition(": ")[2] for d in joined] == ["One", "Two"]
    assert "more" in joined[0].text
    assert joined[0].line_ends


@pytest.mark.pipeline
def test_portions_are_of_each_document() -> None:
    portions = Portions(documents=3, train_characters=50, valid_characters=60, test_characters=70)
    texts = open_texts("embedded", portions)
    assert len(list(texts.train)) == 3
    for text, characters in ((texts.train, 50), (texts.valid, 60), (texts.test, 70)):
        assert 0 < max(len(document.text) for document in text) <= characters
    assert texts.stop == texts.valid


def test_all_of_wikitexts_validation_text_ends_training(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        lines = f" = {split} = \n\n" + "".join(f" line {i} of it \n" for i in range(20))
        (tmp_path / f"wiki.{split}.tokens").write_text(lines)
    portions = Portions(valid_characters=60, test_characters=60)
    texts = open_texts("wikitext-2", portions, tmp_path)
    (cut,), (whole,) = texts.valid, texts.stop
    assert len(cut.text) <= 60 < len(whole.text)
