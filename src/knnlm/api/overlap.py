"""Texts that are in the datastore are refused: every token would retrieve itself."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm.api.overlap_records import CACHE, TextOverlap, read_overlap, write_overlap
from knnlm.datastore import Entries
from knnlm.disk import refuse_links
from knnlm.errors import DamagedError, UsageError
from knnlm.evaluation import LARGE_SHARE, find_overlap
from knnlm.files import fingerprint
from knnlm.models import LanguageModel
from knnlm.progress import counted, log
from knnlm.text import Source, WithoutDocuments, decode_documents, encode_documents

_NOTED_SHARE = 0.01
_NAMED = 3


def without_overlap(
    entries: Entries, text: Source, lm: LanguageModel, *, own_split: bool
) -> Source:
    """A text after checking that it is not in the datastore.

    Documents that are in it as a whole are left out where they are few, or where the text is
    another split of the datastore's own: folders hold copies.

    Args:
        entries: The datastore.
        text: The evaluation text.
        lm: The datastore's model, for its tokenizer.
        own_split: Whether the text is another split of the one that the datastore was built from.

    Raises:
        UsageError: Too much of it is in the datastore.
    """
    overlap = text_overlap(entries, text, lm)
    rest = overlap.share - overlap.documents_share
    copies_only = len(overlap.documents) < overlap.total and rest < LARGE_SHARE
    if overlap.large and not (own_split and copies_only):
        raise UsageError(_refusal(overlap, own_split))
    if overlap.share >= _NOTED_SHARE or overlap.documents:
        log.warning(f"note: {overlap.share:.1%} of the text is in passages of the datastore too")
    if not overlap.documents:
        return text
    log.warning(
        f"note: {_named(overlap.documents)} {_are(overlap.documents)} in the datastore and left "
        f"out ({overlap.documents_share:.1%} of the text)"
    )
    return WithoutDocuments(text, tuple(overlap.documents))


def text_overlap(entries: Entries, text: Source, lm: LanguageModel) -> TextOverlap:
    """How much of a text is in a datastore; looked for once, then kept in its cache.

    Args:
        entries: The datastore.
        text: The text.
        lm: The datastore's model, for its tokenizer.
    """
    identity = fingerprint({"text": text.describe(), "datastore": entries.fingerprint})
    file = entries.path / CACHE / f"{identity}.json"
    if file.is_file():
        try:
            known = read_overlap(file)
            if known is not None:
                return known
        except DamagedError:
            log.warning(f"{file} is damaged; looking for overlap again")
    documents = list(encode_documents(lm.tokenizer, text))
    found = find_overlap(
        list(decode_documents(lm.tokenizer, (document.tokens[1:] for document in documents))),
        decode_documents(lm.tokenizer, _stored(entries)),
    )
    overlap = TextOverlap(
        share=found.share,
        documents=[documents[number].name for number in found.documents],
        documents_share=found.documents_share,
        total=found.total,
        large=found.large,
        sharing=[documents[number].name for number in found.sharing[: _NAMED + 1]],
    )
    refuse_links(file.parent, below=entries.path)
    write_overlap(file, overlap)
    return overlap


def _stored(entries: Entries) -> Iterator[NDArray[np.int32]]:
    """The tokens of each document of a datastore."""
    targets, stop = entries.targets, 0
    for document in entries.documents:
        start, stop = stop, stop + document.tokens - 1
        yield targets[start:stop]


def _refusal(overlap: TextOverlap, own_split: bool) -> str:
    share = f"{overlap.share:.0%} of the text"
    if overlap.documents:
        named = f"{_named(overlap.documents)} {_are(overlap.documents)}"
        subject = f"{named} in the datastore, where every token retrieves itself ({share})"
    else:
        more = " and others" if len(overlap.sharing) > _NAMED else ""
        where = f"{', '.join(overlap.sharing[:_NAMED])}{more}"
        subject = f"{share} ({where}) is in the datastore, where every token retrieves itself"
    advice = "give another text"
    if own_split:
        advice = (
            "it is a part of the datastore's own text, so build again without the copies, give "
            "another text with `text`"
        )
    return f"{subject}: {advice}, or allow it with `allow_overlap`"


def _named(names: list[str]) -> str:
    left = len(names) - _NAMED
    more = f" and {counted(left, 'other')}" if left > 0 else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _are(names: list[Any]) -> str:
    return "is" if len(names) == 1 else "are"
