"""Which FAISS index, when nobody says: the paper's where the store is large enough for it, and a
rule below that.

    rows ≥ 1,048,576   IVF4096,PQ64np, 32 lists probed   the paper's code, which trains on a million rows
    rows ≥ 9,984       IVF<L>,PQ<M>np, 32 probed         L = the power of two at or below √rows
    rows ≥ 1,521       IVF<L>,Flat, 32 probed            too few rows to train a codebook of 256
    fewer              Flat                              lists would not help

M is the largest divisor of the width up to 64 that leaves at least four numbers to a code byte.
`np` (no polysemous training) is what constructing the index in code, as the paper does, means;
without it FAISS's factory spends many times longer on reordering codes, which changes no distance.
Knows numbers only."""

import math

from knnlm.errors import UsageError

PAPER_ROWS = 1 << 20
PAPER_LISTS = 4096
PQ_ROWS = 39 * 256
LIST_ROWS = 39 * 39
NPROBE = 32


def default_factory(rows: int, width: int) -> str:
    """The factory string for a store of `rows` rows."""
    if rows < LIST_ROWS:
        return "Flat"
    lists = PAPER_LISTS if rows >= PAPER_ROWS else 1 << int(math.log2(math.sqrt(rows)))
    if rows < PQ_ROWS:
        return f"IVF{lists},Flat"
    code = max(m for m in range(1, max(1, min(width // 4, 64)) + 1) if width % m == 0)
    return f"IVF{lists},PQ{code}np"


def check_nprobe(nprobe: int) -> None:
    """Refuse a number of lists that cannot be probed."""
    if nprobe < 1:
        raise UsageError(f"nprobe = {nprobe} is out of range: choose 1 or more")
