"""Which FAISS index, where nobody names one: the paper's if the datastore is large enough for it.

    entries ≥ 1,048,576   IVF4096,PQ64np    the paper's code, which trains on a million states
    entries ≥ 9,984       IVF<L>,PQ<M>np    L = the power of two at or below √entries
    entries ≥ 1,521       IVF<L>,Flat       too few to train a codebook of 256
    fewer                 Flat              lists would not help

M is the largest divisor of the width up to 64 that leaves at least four numbers to a code byte.
`np` (no polysemous training) is what constructing the index in code, as the paper does, means;
without it FAISS's factory spends many times longer on reordering codes, which changes no distance.
"""

import math

from knnlm.errors import UsageError

PAPER_ENTRIES = 1 << 20
PAPER_LISTS = 4096
CODEBOOK_ENTRIES = 39 * 256
"""Below this FAISS warns that a codebook of 256 has too few states to train on (39 for each)."""
LISTS_ENTRIES = 39 * 39
"""The same for lists: fewer entries than this leave a list fewer than 39."""


def default_factory(entries: int, width: int) -> str:
    """The FAISS factory string for a datastore.

    Args:
        entries: How many entries it has.
        width: How many numbers a stored state has.

    Example:
        >>> default_factory(500_000, width=128)
        'IVF512,PQ32np'
    """
    if entries < LISTS_ENTRIES:
        return "Flat"
    lists = PAPER_LISTS if entries >= PAPER_ENTRIES else 1 << int(math.log2(math.sqrt(entries)))
    if entries < CODEBOOK_ENTRIES:
        return f"IVF{lists},Flat"
    code = max(m for m in range(1, max(1, min(width // 4, 64)) + 1) if width % m == 0)
    return f"IVF{lists},PQ{code}np"


def check_nprobe(nprobe: int) -> None:
    """Check that an index can visit `nprobe` lists.

    Raises:
        UsageError: It is less than 1.
    """
    if nprobe < 1:
        raise UsageError(f"nprobe = {nprobe} is out of range: choose 1 or more")
