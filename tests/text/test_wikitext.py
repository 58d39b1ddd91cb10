"""WikiText's files hold articles, and its published word counts count line ends."""

from pathlib import Path

import pytest

from knnlm.errors import UsageError
from knnlm.text import SPLITS, Split, count_words, open_text

TEXT = (
    " \n = First title = \n \n Some words here . \n \n = = Section = = \n \n More = of = it . \n\n"
    " = = = Deeper = = = \n \n Still the first . \n \n = X = \n \n The second , short title . \n"
)


def wikitext(folder: Path, text: str = TEXT, split: Split = "train") -> Path:
    file = folder / f"wiki.{split}.tokens"
    file.write_text(text)
    return file


def test_an_article_begins_at_each_top_level_heading(tmp_path: Path) -> None:
    first, second = open_text(wikitext(tmp_path), "train")
    assert first.name == "0: First title"
    assert second.name == "1: X"
    assert second.text == " = X = \n \n The second , short title . \n"


def test_the_articles_make_up_the_file(tmp_path: Path) -> None:
    assert "".join(d.text for d in open_text(wikitext(tmp_path), "train")) == TEXT


@pytest.mark.parametrize(
    "heading", [" = = Section = = ", " = = = Deeper = = = ", " = a = b ", "= a = ", " == a == "]
)
def test_other_headings_do_not_split(tmp_path: Path, heading: str) -> None:
    text = f" = Title = \n \n Words . \n \n{heading}\n \n More . \n"
    assert len(list(open_text(wikitext(tmp_path, text), "train"))) == 1


@pytest.mark.parametrize("text", [" \n = Wins ; L = \n Losses ; D \n", " y \n = m x + b = \n \n"])
def test_an_equation_or_a_table_key_that_looks_like_a_heading_does_not_split(
    tmp_path: Path, text: str
) -> None:
    article = f" = Title = \n \n Words . \n{text} More . \n"
    assert [d.text for d in open_text(wikitext(tmp_path, article), "train")] == [article]


def test_line_ends_count_as_words_for_wikitext_only(tmp_path: Path) -> None:
    lines = " = A title = \n \n Some words . \n"
    (tmp_path / "plain.txt").write_text(lines)
    (plain,) = open_text(tmp_path / "plain.txt", "train")
    (article,) = open_text(wikitext(tmp_path, lines), "train")
    assert count_words(plain.text, plain.line_ends) == 7
    assert count_words(article.text, article.line_ends) == 7 + 3


def test_the_word_count_of_the_articles_is_that_of_the_file(tmp_path: Path) -> None:
    words = sum(count_words(d.text, d.line_ends) for d in open_text(wikitext(tmp_path), "train"))
    assert words == len(TEXT.split()) + TEXT.count("\n")


def test_a_wikitext_folder_gives_the_file_of_the_split(tmp_path: Path) -> None:
    for split in SPLITS:
        wikitext(tmp_path, f" = {split} = \n \n Words . \n", split)
    (tmp_path / "README.md").write_text("not part of the text\n")
    for split in SPLITS:
        assert [d.name for d in open_text(tmp_path, split)] == [f"0: {split}"]


def test_a_wikitext_folder_without_the_split_is_refused_with_the_files_it_has(
    tmp_path: Path,
) -> None:
    wikitext(tmp_path, split="valid")
    with pytest.raises(
        UsageError, match=r"has no wiki.test.tokens, only wiki.valid.tokens: name the file you mean"
    ):
        open_text(tmp_path, "test")


def test_a_file_without_headings_is_one_article(tmp_path: Path) -> None:
    (only,) = open_text(wikitext(tmp_path, " Words . \n"), "train")
    assert (only.name, only.text) == ("0: wiki.train.tokens", " Words . \n")


def test_blank_lines_alone_are_no_article(tmp_path: Path) -> None:
    assert list(open_text(wikitext(tmp_path, " \n \n"), "train")) == []
