"""Documents → token ids: trains a byte-level BPE, and encodes with any Hugging Face tokenizer.

A document becomes [bos] + its tokens if the tokenizer has a beginning-of-sequence token, so that
every token of the text is predicted. Without one the first token cannot be predicted, and the word
count leaves out the words that lie wholly inside it.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.errors import KnnlmError, UsageError, first_line
from knnlm.files import canonical
from knnlm.text.documents import Document, count_words, group_by_size

END_OF_TEXT = "<|endoftext|>"
"""The one special token of the tokenizers that are trained here."""

CONTEXT_TOKENS_KEPT = 8
"""How many tokens before a continuation are decoded together with it."""

_BATCH_CHARACTERS = 1 << 20
_TOKENS_DECODED = 1 << 16
_CONTROL_TOKENS = "sanitize_control_tokens"  # of messages in a chat template


class EncodedDocument(NamedTuple):
    """A document as token ids.

    Attributes:
        name: The document's.
        tokens: All its tokens, bos included.
        words: The words of the predicted tokens, which are all but the first.
        meta: The document's.
    """

    name: str
    tokens: NDArray[np.int32]
    words: int
    meta: Mapping[str, Any] = MappingProxyType({})


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Any:
    """Train a byte-level BPE; every text can be encoded, because every byte is in its vocabulary.

    Args:
        texts: What to learn the merges from.
        vocab_size: The most vocabulary entries it may have; a short text gives fewer.

    Returns:
        A Hugging Face fast tokenizer.

    Example:
        >>> tokenizer = train_tokenizer(["the cat sat on the mat"], vocab_size=270)
    """
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
    """128 bits, in hexadecimal, that change with any rule or vocabulary entry of the tokenizer."""
    import xxhash

    rules = tokenizer.backend_tokenizer.to_str().encode()
    return xxhash.xxh3_128_hexdigest(rules + canonical({"bos": tokenizer.bos_token_id}))


def tokenizer_rules(tokenizer: Any) -> dict[str, Any]:
    """How a text becomes tokens here, for manifests: what someone needs to repeat a perplexity."""
    return {
        "bos": tokenizer.bos_token_id,
        "document_starts_with": "bos"
        if tokenizer.bos_token_id is not None
        else "its first token, not predicted",
        "special_tokens": "not added, and text that spells one stays text",
        "padding": "right, never predicted; attention is causal, so no mask",
    }


def encode_documents(tokenizer: Any, documents: Iterable[Document]) -> Iterator[EncodedDocument]:
    """Encode documents, in order; those with nothing to predict are left out.

    Documents are tokenized a batch at a time, which uses all cores and bounds memory. Text that
    spells a special token, as a page about tokenizers does, stays text.

    Args:
        tokenizer: A Hugging Face fast tokenizer; it is not changed, and its own truncation and
            padding are not used.
        documents: A text, such as `open_text` returns.

    Example:
        >>> text = open_text("notes/", "train")
        >>> tokens = sum(len(document.tokens) for document in encode_documents(tokenizer, text))
    """
    parts: list[EncodedDocument] = []  # of the document that is being read
    for piece, continues in _encoded_pieces(tokenizer, documents):
        if parts and not continues:
            yield from _joined(parts)
            parts = []
        parts.append(piece)
    yield from _joined(parts)


def _encoded_pieces(
    tokenizer: Any, documents: Iterable[Document]
) -> Iterator[tuple[EncodedDocument, bool]]:
    """Documents and pieces of documents one by one; only the first of a document begins with
    bos."""
    rules, bos = _rules_for_text(tokenizer), tokenizer.bos_token_id
    # without bos the offsets of the first token are needed, which the faster way leaves out
    encode = rules.encode_batch if bos is None else rules.encode_batch_fast
    for batch in group_by_size(documents, lambda document: len(document.text), _BATCH_CHARACTERS):
        encodings = encode([d.text for d in batch], add_special_tokens=False)
        for document, encoding in zip(batch, encodings, strict=True):
            yield _encoded(document, encoding, bos), document.continues


def _joined(parts: list[EncodedDocument]) -> Iterator[EncodedDocument]:
    """The document of these pieces, if it has something to predict."""
    tokens = [part.tokens for part in parts]
    if sum(map(len, tokens)) > 1:
        whole = tokens[0] if len(tokens) == 1 else np.concatenate(tokens)
        words = sum(part.words for part in parts)
        yield EncodedDocument(parts[0].name, whole, words, parts[0].meta)


def joined_tokens(tokenizer: Any, documents: Iterable[Document]) -> NDArray[np.int32]:
    """Encode documents into one array of token ids, one document after the other, for training."""
    parts = [document.tokens for document in encode_documents(tokenizer, documents)]
    return np.concatenate([np.empty(0, np.int32), *parts])


def decode_documents(tokenizer: Any, documents: Iterable[NDArray[np.integer]]) -> Iterator[str]:
    """The texts of documents given by their tokens, several at once where they are short."""
    group: list[list[int]] = []
    for tokens in documents:
        group.append(tokens.tolist())
        if sum(map(len, group)) >= _TOKENS_DECODED:
            yield from tokenizer.backend_tokenizer.decode_batch(group, skip_special_tokens=False)
            group = []
    yield from tokenizer.backend_tokenizer.decode_batch(group, skip_special_tokens=False)


def encode_prompt(tokenizer: Any, text: str) -> list[int]:
    """Encode a text to continue; it begins as documents do, because the model saw those.

    Raises:
        UsageError: The text is not valid Unicode, or it is empty and the tokenizer has no bos.
    """
    return prompt_encoder(tokenizer)(text)


def prompt_encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    """The function that `encode_prompt` is, for many texts: its rules are made once."""
    rules, bos = _rules_for_text(tokenizer), tokenizer.bos_token_id

    def encode(text: str) -> list[int]:
        _check_unicode(text)
        ids: list[int] = rules.encode(text, add_special_tokens=False).ids
        if bos is not None:
            return [bos, *ids]
        if not ids:
            raise UsageError(
                "the prompt is empty, and this model has no token to begin a text with: give some "
                "text"
            )
        return ids

    return encode


def decode_continuation(
    tokenizer: Any, before: Sequence[int], new: Sequence[int], special: bool = False
) -> str:
    """Decode the tokens of a continuation in their context.

    Some tokenizers drop the space that a token begins with if it is decoded alone.

    Args:
        tokenizer: A Hugging Face tokenizer.
        before: The tokens before the continuation; the last `CONTEXT_TOKENS_KEPT` are used.
        new: The tokens to decode.
        special: Show special tokens too.
    """

    def decode(tokens: Sequence[int]) -> str:
        return str(tokenizer.decode(list(tokens), skip_special_tokens=not special))

    if context := list(before[-CONTEXT_TOKENS_KEPT:]):
        start, whole = decode(context), decode([*context, *new])
        if whole.startswith(start):
            return whole[len(start) :]
    return decode(new)  # no context, or the first new token completes a character of it


def with_bos(tokenizer: Any) -> Any:
    """A tokenizer that begins texts with bos, as our documents begin.

    Returns:
        The tokenizer itself if it does so already or has no bos; otherwise a changed copy.
    """
    import tokenizers

    bos = tokenizer.bos_token_id
    if bos is None or tokenizer("a").input_ids[:1] == [bos]:
        return tokenizer
    changed = copy.deepcopy(tokenizer)
    changed.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{tokenizer.bos_token}:0 $A:0",
        pair=f"{tokenizer.bos_token}:0 $A:0 $B:1",
        special_tokens=[(tokenizer.bos_token, bos)],
    )
    return changed


def reading_as_text(tokenizer: Any) -> Any:
    """A tokenizer that reads a text as documents and prompts are read here.

    The text begins with bos where there is one, and what spells a special token in it stays text.
    In a chat template the template's special tokens are special all the same, those that a message
    spells are not.

    Returns:
        A changed copy: `reading_as_text(tokenizer)(text).input_ids` is `encode_prompt(…)`.
    """
    special = with_bos(tokenizer)  # reads special tokens as such
    changed = copy.deepcopy(special)
    changed.split_special_tokens = True
    return _with_special_templates(changed, special)


def _with_special_templates(changed: Any, special: Any) -> Any:
    """Let a tokenizer leave its chat templates to another one, which reads special tokens."""
    kind: Any = type(changed)

    @functools.wraps(kind.apply_chat_template)
    def apply_chat_template(self: Any, *given: Any, **options: Any) -> Any:
        plain = copy.copy(special)
        plain.chat_template = self.chat_template
        if _CONTROL_TOKENS in inspect.signature(kind.apply_chat_template).parameters:
            options.setdefault(_CONTROL_TOKENS, True)
        return plain.apply_chat_template(*given, **options)

    def reduce(self: Any) -> Any:
        """Copies and worker processes make the class again: it has no module to be found in."""
        plain = kind.__new__(kind)
        plain.__dict__.update(self.__dict__)
        return _with_special_templates, (plain, special)

    members = {"apply_chat_template": apply_chat_template, "__reduce__": reduce}
    # the name stays, because save_pretrained writes it
    changed.__class__ = type(kind.__name__, (kind,), members)
    return changed


def encode_chat(tokenizer: Any, message: str) -> list[int]:
    """Encode a message of a user as the model's chat template has it, up to where the answer
    begins.

    What spells a special token in the message stays text, as in any prompt.

    Raises:
        UsageError: The message is not valid Unicode, or the model has no chat template.
        KnnlmError: transformers is too old to keep special tokens out of messages.
    """
    return encode_messages(tokenizer, [{"role": "user", "content": message}])


def encode_messages(tokenizer: Any, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Encode a conversation as the model's chat template has it, up to where the answer begins.

    Args:
        tokenizer: A Hugging Face tokenizer.
        messages: Each with a "role" and its "content".

    Raises:
        UsageError: A message is not valid Unicode, the model has no chat template, or the template
            refuses the messages.
        KnnlmError: transformers is too old to keep special tokens out of messages.
    """
    for message in messages:
        _check_unicode(message["content"])
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError("this model has no chat template: leave out `chat`")
    if _CONTROL_TOKENS not in inspect.signature(tokenizer.apply_chat_template).parameters:
        raise KnnlmError("this transformers cannot keep special tokens out of messages: update it")
    try:
        ids: list[int] = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            add_generation_prompt=True,
            sanitize_control_tokens=True,
            return_dict=False,
        )
    except Exception as error:  # a template is a program, and may raise anything
        raise UsageError(
            f"the model's chat template refuses the message ({first_line(error)}): leave out `chat`"
        ) from error
    if not ids:
        raise UsageError("the model's chat template is empty for this message: leave out `chat`")
    return ids


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the prompt is not valid UTF-8: check the terminal's encoding or the file"
        ) from error


def _rules_for_text(tokenizer: Any) -> Any:
    """A copy of the tokenizer's rules without truncation, padding and special tokens."""
    import tokenizers

    rules = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    rules.no_truncation()
    rules.no_padding()
    rules.encode_special_tokens = True
    return rules


def _encoded(document: Document, encoding: Any, bos: int | None) -> EncodedDocument:
    ids, text = np.asarray(encoding.ids, dtype=np.int32), document.text
    if not document.continues:
        if bos is not None:
            ids = np.concatenate([np.array([bos], dtype=np.int32), ids])
        else:
            text = text[encoding.offsets[0][1] if len(ids) else 0 :]
    return EncodedDocument(document.name, ids, count_words(text, document.line_ends), document.meta)
