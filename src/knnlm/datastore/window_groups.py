"""A text as groups of token windows, with what is known of the documents that begin in each."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import xxhash

from knnlm.datastore.part_files import DocumentInfo
from knnlm.errors import KnnlmError
from knnlm.hidden_states import TokenWindow
from knnlm.models import LanguageModel
from knnlm.text import Source, cut_windows, encode_documents, group_by_size


class WindowGroup(NamedTuple):
    """Windows that run together, and the documents that begin in them with their metadata."""

    windows: list[TokenWindow]
    documents: list[DocumentInfo]
    metadata: list[dict[str, Any]]

    @property
    def entries(self) -> int:
        """How many entries they give."""
        return sum(w.window.scored for w in self.windows)


class WindowGroups:
    """Tokenizes a text and cuts it into groups of windows; counts what it has read.

    Args:
        lm: The model, for its tokenizer and its vocabulary.
        window: Tokens that the model reads at once.
        stride: Tokens from one window to the next.
        first_document: The number of the first document.
    """

    def __init__(
        self, lm: LanguageModel, window: int, stride: int, first_document: int = 0
    ) -> None:
        self.lm, self.window, self.stride = lm, window, stride
        self.first_document = first_document
        self.documents = self.words = 0  # so far
        self.contents: set[int] = set()  # a hash of each document's tokens

    def groups(self, text: Source, tokens: int) -> Iterator[WindowGroup]:
        """Groups of about `tokens` tokens, in the order of the text."""
        documents: list[DocumentInfo] = []
        metadata: list[dict[str, Any]] = []
        windows = self._windows(text, documents, metadata)
        for group in group_by_size(windows, lambda w: len(w.tokens), tokens):
            yield WindowGroup(group, documents.copy(), metadata.copy())
            documents.clear()
            metadata.clear()

    def _windows(
        self, text: Source, documents: list[DocumentInfo], metadata: list[dict[str, Any]]
    ) -> Iterator[TokenWindow]:
        """Windows of all documents; each document is added to the lists before its first."""
        limit = self.lm.vocab_size
        for number, encoded in enumerate(encode_documents(self.lm.tokenizer, text)):
            tokens = encoded.tokens
            if int(tokens.max()) >= limit:
                raise KnnlmError(
                    f"document {encoded.name} has token {int(tokens.max())} but the model predicts "
                    f"only {limit}: use the tokenizer that the model was trained with"
                )
            self.documents, self.words = number + 1, self.words + encoded.words
            self.contents.add(xxhash.xxh3_64_intdigest(tokens.tobytes()))
            documents.append(DocumentInfo(encoded.name, len(tokens), encoded.words, int(tokens[0])))
            metadata.append(dict(encoded.meta))
            for w in cut_windows(len(tokens), self.window, self.stride):
                yield TokenWindow(self.first_document + number, w, tokens[w.start : w.stop + 1])
