"""How a user names a text, and how the name becomes documents.

A text is named in one way everywhere: by paths, `Folder(PATH)`, `HubDataset("NAME")` or
`PythonDocs()`. The name does not say which split is meant; what is done with the text does.
Building a datastore reads "train", tuning "valid", evaluation "test".
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from knnlm.errors import UsageError, unknown
from knnlm.text.documents import SPLITS, Source, Split
from knnlm.text.folder import Folder, FolderSplit
from knnlm.text.hub import HubDataset
from knnlm.text.local_files import find_files
from knnlm.text.python_docs import PythonDocs
from knnlm.text.wikitext import is_wikitext

Text = str | Path | Sequence[str | Path] | Folder | HubDataset | PythonDocs | Source
"""A text as a user names it, or one that is open already."""


def text_as_json(text: Text) -> dict[str, Any] | None:
    """How a text that has splits was named, so that its other splits are found later.

    Returns:
        Its name as JSON, with absolute paths; None for a text without splits.
    """
    if isinstance(text, PythonDocs):
        return {"kind": "embedded"}
    if isinstance(text, HubDataset):
        return {"kind": "dataset", "name": text.name, "column": text.column}
    if isinstance(text, Folder) and text.split is not None:
        paths = [text.path] if isinstance(text.path, str | Path) else text.path
        return {
            "kind": "folder",
            "paths": [str(Path(path).absolute()) for path in paths],
            "split": list(text.split),
            "meta": dict(text.meta),
        }
    if isinstance(text, str | Path) and is_wikitext(Path(text)):
        return {"kind": "wikitext", "path": str(Path(text).absolute())}
    return None


def text_from_json(name: Mapping[str, Any]) -> Text:
    """The text that `text_as_json` named.

    Raises:
        UsageError: Its kind is unknown.
    """
    match name["kind"]:
        case "embedded":
            return PythonDocs()
        case "dataset":
            return HubDataset(name["name"], name["column"], name.get("revision"))
        case "folder":
            return Folder(name["paths"], split=name["split"], meta=name["meta"])
        case "wikitext":
            return Path(name["path"])
        case kind:
            raise unknown("kind of text", str(kind), ("embedded", "dataset", "folder", "wikitext"))


def open_text(text: Text, split: Split) -> Source:
    """Turn the name of a text into its documents.

    Args:
        text: One of

            - a path, or several: files, and folders of text files;
            - `Folder(PATH, split=(90, 5, 5))`, divided in three by the names of its documents;
            - `HubDataset("NAME")` or `HubDataset("NAME:CONFIG", column="text", revision="v1")`;
            - `PythonDocs()`, the documentation of this Python;
            - a source of documents, which is returned as it is.
        split: "train", "valid" or "test": the part that is read of a text that has parts (a data
            set, the Python documentation, a WikiText folder). Other files are read whole.

    Returns:
        The documents of the text. Files are looked for now; nothing is read or downloaded before
        the documents are asked for.

    Raises:
        UsageError: `text` is none of these, a path does not exist, or the split is unknown.

    Example:
        >>> from knnlm.text import PythonDocs, open_text
        >>> document = next(iter(open_text(PythonDocs(), "test")))
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    if isinstance(text, Folder | HubDataset | PythonDocs):
        return text.open(split)
    if text == "":
        raise UsageError("text is an empty path: give a file or a folder")
    if isinstance(text, str | Path):
        return find_files([text], split)
    if isinstance(text, Source):
        return text
    if isinstance(text, Sequence) and all(isinstance(path, str | Path) for path in text):
        if not text:
            raise UsageError("text is an empty list of paths: give at least one")
        return find_files(text, split)
    raise UsageError(
        f"text is {type(text).__name__}, which names no text: give a path, several paths, "
        "Folder(PATH), HubDataset(NAME) or PythonDocs()"
    )


def open_for_datastore(text: Text) -> Source:
    """Open the part of a text that a datastore is built from.

    Of a folder that is divided it is said how many documents each part has.

    Raises:
        UsageError: As `open_text`; or no document is left for the datastore.
    """
    source = open_text(text, "train")
    if isinstance(source, FolderSplit):
        source.say_parts()
    return source
