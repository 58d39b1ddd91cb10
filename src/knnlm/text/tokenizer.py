"""Documents → token ids. Trains a byte-level BPE; encodes with any Hugging Face tokenizer.

A document becomes [bos] + its tokens where the tokenizer has a beginning-of-sequence token, so that
every token of the text is predicted. Without one the first token cannot be predicted, and the word
count leaves out the words that lie wholly inside it. Nothing here knows of windows or models."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import canonical
from knnlm.text.documents import Document, count_words

END_OF_TEXT = "<|endoftext|>"
_BATCH_CHARACTERS = 1 << 20
CONTEXT_TOKENS_KEPT = 8


class EncodedDocument(NamedTuple):
    """A document as token ids; `words` counts the words of the predicted tokens (all but the
    first)."""

    name: str
    tokens: NDArray[np.int32]
    words: int


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Any:
    """A byte-level BPE of at most `vocab_size` entries as a Hugging Face fast tokenizer; nothing is
    unknown to it."""
    import tokenizers
    import transformers

    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """128 bits that change when any rule or entry of the tokenizer does."""
    import xxhash

    rules = tokenizer.backend_tokenizer.to_str().encode()
    return xxhash.xxh3_128_hexdigest(rules + canonical({"bos": tokenizer.bos_token_id}))


def tokenizer_rules(tokenizer: Any) -> dict[str, Any]:
    """How texts become tokens here, for the record: windows of the same tokens give the same
    perplexity anywhere."""
    return {
        "bos": tokenizer.bos_token_id,
        "document_starts_with": "bos"
        if tokenizer.bos_token_id is not None
        else "its first token, not predicted",
        "special_tokens": "not added, and text that spells one stays text",
        "padding": "right, never predicted; attention is causal, so no mask",
    }


def encode(tokenizer: Any, documents: Iterable[Document]) -> Iterator[EncodedDocument]:
    """Token ids of each document, in order; documents with nothing to predict are left out.

    Documents are tokenized a batch at a time, which uses all cores and bounds memory. Text that
    spells a special token, such as a page about tokenizers does, stays text."""
    rules = _rules_for_text(tokenizer)
    for batch in _batches(documents):
        encodings = rules.encode_batch([d.text for d in batch], add_special_tokens=False)
        for document, encoding in zip(batch, encodings, strict=True):
            encoded = _encoded(document, encoding, tokenizer.bos_token_id)
            if len(encoded.tokens) > 1:
                yield encoded


def encode_prompt(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text to continue: begun as a document is, so that the model sees what it saw
    of the store's."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the prompt is not valid UTF-8: check the terminal's encoding or the file"
        ) from error
    ids: list[int] = _rules_for_text(tokenizer).encode(text, add_special_tokens=False).ids
    bos = tokenizer.bos_token_id
    found = ids if bos is None else [bos, *ids]
    if not found:
        raise UsageError(
            "the prompt is empty, and this model has no token to begin a text with: give some text"
        )
    return found


def with_bos(tokenizer: Any) -> Any:
    """A copy whose texts begin as our documents do, with bos, where the tokenizer has one but would
    not add it."""
    import tokenizers

    bos = tokenizer.bos_token_id
    if bos is None or tokenizer("a").input_ids[:1] == [bos]:
        return tokenizer
    found = copy.deepcopy(tokenizer)
    template = tokenizers.processors.TemplateProcessing(
        single=f"{tokenizer.bos_token}:0 $A:0",
        pair=f"{tokenizer.bos_token}:0 $A:0 $B:1",
        special_tokens=[(tokenizer.bos_token, bos)],
    )
    found.backend_tokenizer.post_processor = template
    return found


def decode_continuation(
    tokenizer: Any, before: Sequence[int], new: Sequence[int], special: bool = False
) -> str:
    """The text of `new` tokens where they stand: alone, some tokenizers would take the space before
    them away."""
    known = list(before[-CONTEXT_TOKENS_KEPT:])
    if not known:
        return str(tokenizer.decode(list(new), skip_special_tokens=not special))
    start = tokenizer.decode(known, skip_special_tokens=not special)
    whole = tokenizer.decode([*known, *new], skip_special_tokens=not special)
    if whole.startswith(start):
        return str(whole[len(start) :])
    return str(
        tokenizer.decode(list(new), skip_special_tokens=not special)
    )  # the first completes a letter


def token_stream(tokenizer: Any, documents: Iterable[Document]) -> NDArray[np.int32]:
    """All documents one after the other, for training."""
    parts = [e.tokens for e in encode(tokenizer, documents)]
    if not parts:
        raise KnnlmError("the text is empty: give a file with text in it")
    return np.concatenate(parts)


def _rules_for_text(tokenizer: Any) -> Any:
    """A copy of the tokenizer's rules that cuts nothing, pads nothing and reads no special
    tokens."""
    import tokenizers

    rules = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    rules.no_truncation()
    rules.no_padding()
    rules.encode_special_tokens = True
    return rules


def _encoded(document: Document, encoding: Any, bos: int | None) -> EncodedDocument:
    ids = np.asarray(encoding.ids, dtype=np.int32)
    if bos is not None:
        return EncodedDocument(
            document.name,
            np.concatenate([np.array([bos], dtype=np.int32), ids]),
            count_words(document.text, document.line_ends),
        )
    predicted_from = encoding.offsets[0][1] if len(ids) else 0
    return EncodedDocument(
        document.name, ids, count_words(document.text[predicted_from:], document.line_ends)
    )


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text)
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
