"""How much of honest test text looks like a copy of the datastore: the basis of the limits in
evaluation/overlap.py.

    .venv/bin/python benchmarks/overlap.py MODEL TEXT --splits 70 [--at REGEX] [--documents N]

Documents of TEXT (a file that is cut where lines match REGEX, or all files of a folder) are divided
many times, 5 % against the rest, at random. Prints the largest shares, how many splits would be
refused, and the seconds that one look takes. The tokenizer is MODEL's.
"""

import argparse
import random
import re
import statistics
import time
from pathlib import Path

from knnlm.evaluation import find_overlap
from knnlm.models import load_model
from knnlm.text import Document, decode_documents, encode_documents


def read(path: Path, at: str | None) -> list[str]:
    """The documents of a text."""
    if path.is_dir():
        return [file.read_text() for file in sorted(path.rglob("*")) if file.is_file()]
    text = path.read_text()
    if at is None:
        return [text]
    starts = [match.start() for match in re.finditer(at, text, re.MULTILINE)]
    starts = starts or [0]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--at")
    parser.add_argument("--documents", type=int)
    given = parser.parse_args()
    lm = load_model(given.model)
    texts = read(given.text, given.at)[: given.documents]
    named = [Document(str(number), text) for number, text in enumerate(texts)]
    encoded = [document.tokens[1:] for document in encode_documents(lm.tokenizer, named)]
    shares, documents, seconds, refused = [], [], [], 0
    for seed in range(given.splits):
        order = random.Random(seed).sample(range(len(encoded)), len(encoded))
        cut = max(1, len(order) // 20)
        test, rest = ([encoded[i] for i in part] for part in (order[:cut], order[cut:]))
        began = time.perf_counter()
        overlap = find_overlap(
            list(decode_documents(lm.tokenizer, test)), decode_documents(lm.tokenizer, rest)
        )
        seconds.append(time.perf_counter() - began)
        shares.append(overlap.share)
        documents.append(overlap.documents_share)
        refused += overlap.large
    print(
        f"{len(encoded):,} documents, {sum(map(len, encoded)):,} tokens, {given.splits} splits: "
        f"{refused} refused; share of a split in shared runs: median "
        f"{statistics.median(shares):.2%}, largest {max(shares):.2%}; documents that are in the "
        f"rest as a whole: in {sum(d > 0 for d in documents)} splits, largest share "
        f"{max(documents):.2%}; {statistics.median(seconds):.2f} s for a look"
    )


if __name__ == "__main__":
    main()
