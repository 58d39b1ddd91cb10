"""Which FAISS index, where nobody names one.

    entries ≥ 9,984       IVF<L>,PQ<M>x4fs  L = the power of two at or below √entries, M = width / 2
    entries ≥ 1,521       IVF<L>,Flat       too few to train codebooks
    fewer                 Flat              lists would not help

PQ<M>x4fs packs two numbers of a state into four bits and compares them in registers; what it finds
is scored again from the stored states (`refine`), so its codes need not be precise. docs/LOG.md has
the measurements. The paper's index is another, and its experiments ask for it: `paper_factory`.
"""

import math
import re
from dataclasses import dataclass
from typing import assert_never

from knnlm import defaults
from knnlm.errors import UsageError
from knnlm.similarity import Metric

PAPER_ENTRIES = 1 << 20
PAPER_LISTS = 4096
CODEBOOK_ENTRIES = 39 * 256
"""Below this FAISS warns that a codebook of 256 has too few states to train on (39 for each)."""
LISTS_ENTRIES = 39 * 39
"""The same for lists: fewer entries than this leave a list fewer than 39."""
MOST_REFINED = 16
_ZERO = re.compile(r"(?<![0-9.])0+(?![0-9.])")
"""A number of lists, codes or links that is 0: FAISS makes such an index, and may crash in it."""
SMALL = "small"
"""Instead of a factory: the default index with half the codes."""


def default_factory(entries: int, width: int, *, small: bool = False) -> str:
    """The FAISS factory string for a datastore.

    Args:
        entries: How many entries it has.
        width: How many numbers an indexed state has.
        small: Whether memory matters more than speed: half as many codes for each state.

    Example:
        >>> default_factory(500_000, width=128)
        'IVF512,PQ64x4fs'
    """
    if entries < LISTS_ENTRIES:
        return "Flat"
    lists = _lists(entries)
    if entries < CODEBOOK_ENTRIES:
        return f"IVF{lists},Flat"
    step = 4 if small else 2
    if width % step:
        return f"IVF{lists},SQ8"  # codes of two numbers do not fit an odd width
    return f"IVF{lists},PQ{width // step}x4fs"


def paper_factory(entries: int, width: int) -> str:
    """The paper's index, or the nearest to it that a smaller datastore can train.

        entries ≥ 1,048,576   IVF4096,PQ64np    the paper's code, which trains on a million states
        entries ≥ 9,984       IVF<L>,PQ<M>np
        fewer                 as `default_factory`

    M is the largest divisor of the width up to 64 that leaves at least four numbers to a code byte.
    `np` (no polysemous training) is what constructing the index in code, as the paper does, means;
    without it FAISS's factory spends many times longer on reordering codes, which changes no
    distance.

    Args:
        entries: How many entries the datastore has.
        width: How many numbers a stored state has.

    Example:
        >>> paper_factory(500_000, width=128)
        'IVF512,PQ32np'
    """
    if entries < CODEBOOK_ENTRIES:
        return default_factory(entries, width)
    lists = PAPER_LISTS if entries >= PAPER_ENTRIES else _lists(entries)
    code = max(m for m in range(1, max(1, min(width // 4, 64)) + 1) if width % m == 0)
    return f"IVF{lists},PQ{code}np"


@dataclass(frozen=True)
class Design:
    """How an index is made and searched.

    Attributes:
        factory: The FAISS factory string.
        nprobe: Lists that are visited; None: as many as `recall` takes.
        refine: Candidates scored again for each neighbor; None: as many as `recall` takes.
        recall: The recall@1024 to reach; an index that does not is refused.
        augmented: Whether inner products are searched for as distances (faiss_index.py).
    """

    factory: str
    nprobe: int | None
    refine: int | None
    recall: float
    augmented: bool


def design_index(
    entries: int,
    width: int,
    metric: Metric,
    *,
    factory: str | None,
    nprobe: int | None,
    refine: int | None,
    recall: float | None,
) -> Design:
    """What is asked for, and the default where nothing is.

    A factory that is named means just this index: its own scores, the paper's nprobe. Scores of an
    augmented index are not inner products, so only what is scored again is augmented.

    Raises:
        UsageError: A number is out of range, also one in the factory string.
    """
    if nprobe is not None and nprobe < 1:
        raise UsageError(f"nprobe = {nprobe} is out of range: choose 1 or more")
    if refine is not None and not 1 <= refine <= MOST_REFINED:
        raise UsageError(f"`refine` {refine} is out of range: choose 1 to {MOST_REFINED}")
    if factory is not None and _ZERO.search(factory):
        raise UsageError(f"`factory` {factory} has a number that is 0: choose 1 or more")
    if recall is not None and not 0 <= recall < 1:
        raise UsageError(f"`recall` {recall} is out of range: choose 0 to less than 1")
    named = factory not in (None, SMALL)
    if named and (recall is None or nprobe is not None):
        nprobe, refine = nprobe or defaults.NPROBE, refine or 1
    if not named and entries < CODEBOOK_ENTRIES:
        refine = 1  # these indexes keep the states themselves
    if recall is None:
        recall = defaults.RECALL if nprobe is None else defaults.RECALL_FLOOR
    augmented = not _is_distance(metric) and refine != 1
    if factory is None or factory == SMALL:
        indexed_width = augmented_width(width) if augmented else width
        factory = default_factory(entries, indexed_width, small=factory == SMALL)
    return Design(factory, nprobe, refine, recall, augmented)


def augmented_width(width: int) -> int:
    """The width of states with one number more, and a multiple of four."""
    return 4 * (width // 4 + 1)


def _is_distance(metric: Metric) -> bool:
    match metric:
        case "l2":
            return True
        case "ip":
            return False
        case _:
            assert_never(metric)


def _lists(entries: int) -> int:
    return 1 << int(math.log2(math.sqrt(entries)))
