"""Sums of the weights of neighbors at many τ at once, without an exponential for each of them.

    S(τ) = Σ_i e^(-d_i/τ),   d_i ≥ 0 below the best score

With z = 1 + d/τ_least, z is divided into bins: eight to an octave, in which d/τ changes little
wherever e^(-d/τ) is not negligible. In each bin a polynomial of degree 6 in z stands for the
exponential, so a bin's share of S needs only the power sums of its members:

    S(τ) ≈ Σ_bins Σ_m c_m(bin, τ) · Σ_{i in bin} u_i^m,   u = z's mantissa - the bin's middle

Power sums do not depend on τ. Neighbors are sorted, so a bin's members are a run of columns, and
what is left for all τ is a product of a sparse matrix of power sums with the table c.

Error. Interpolation at seven Chebyshev nodes is off by at most (h/τ)^7 / (7!·2^6) of the bin's
largest weight, where h is half the bin's width and h/τ ≤ (1 + d/τ)/17. The sum is at least 1, the
best neighbor's weight, so n neighbors at one d are the worst case: off by less than 1e-8 of the sum
where n is 1,024, and 6e-8 where it is 16,384. Sums are float64.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

_POWERS = 7
_BINS_OF_OCTAVE = 8
_FRACTION_BITS = 52 - 3
"""Bits of z's mantissa behind the three that number an octave's bins."""
_FRACTION = (1 << _FRACTION_BITS) - 1
_ONE = 0x3FF << 52
"""The bits of 1.0: z is never less, so its own number the bins from there."""
_HALF_A_BIN = 1 / (2 * _BINS_OF_OCTAVE)
_NEGLIGIBLE = 50.0
"""Weights below e^-50 of the best one count as zero: they change no sum."""


class WeightSums:
    """Sums of e^(-d/τ) over groups of distances, for all τ.

    Args:
        taus: Retrieval temperatures, in any order.

    It keeps memory between calls, so each thread has its own.

    Example:
        >>> sums = WeightSums([1.0, 2.0])
        >>> sums(np.array([0.0, 0.0, 4.0]), np.array([0, 1, 3])).round(4)
        array([[1.    , 1.    ],
               [1.0183, 1.1353]])
    """

    def __init__(self, taus: Sequence[float]) -> None:
        rates = 1 / np.asarray(taus, np.float64)
        self._scale = float(rates.max())
        reach = 1 + _NEGLIGIBLE * self._scale / float(rates.min())
        octaves = int(np.ceil(np.log2(reach)))
        self._farthest = 2.0**octaves
        self._table = _coefficients(rates, self._scale, octaves)
        self._memory = np.empty(0, np.int64), np.empty(0), np.empty(0, bool)

    def __call__(
        self, distances: NDArray[np.float64], edges: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """The sums (group, τ).

        Args:
            distances: d of the members, group after group; ∞ where a neighbor is missing. They are
                overwritten. Sorted within a group they take the least time.
            edges: Where each group starts, and the end; a group may be empty.
        """
        count, members = len(edges) - 1, len(distances)
        if not members:
            return np.zeros((count, self._table.shape[1]))
        bins, power, begins = self._buffers(members)
        z = distances
        z *= self._scale
        z += 1
        np.minimum(z, self._farthest, out=z)
        bits = z.view(np.int64)
        np.right_shift(bits, _FRACTION_BITS, out=bins)
        np.not_equal(bins[1:], bins[:-1], out=begins[1:])
        begins[edges[:-1][edges[:-1] < members]] = True
        runs = np.flatnonzero(begins)
        bits &= _FRACTION
        bits |= _ONE
        u = np.subtract(z, 1 + _HALF_A_BIN, out=z)
        sums = np.empty((len(runs), _POWERS))
        sums[:, 0] = np.diff(runs, append=members)
        sums[:, 1] = np.add.reduceat(u, runs)
        np.multiply(u, u, out=power)
        for exponent in range(2, _POWERS):
            sums[:, exponent] = np.add.reduceat(power, runs)  # with `out` it would keep the GIL
            power *= u
        first = (bins[runs] - (_ONE >> _FRACTION_BITS)).astype(np.int32) * _POWERS
        columns = first[:, None] + np.arange(_POWERS, dtype=np.int32)
        pointers = (np.searchsorted(runs, edges) * _POWERS).astype(np.int32)
        shape = (count, len(self._table))
        of_runs = csr_array((sums.ravel(), columns.ravel(), pointers), shape)
        result: NDArray[np.float64] = of_runs @ self._table
        return result

    def _buffers(
        self, members: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Memory that is kept from call to call: new pages would take longer than the sums."""
        if len(self._memory[0]) < members:
            self._memory = np.empty(members, np.int64), np.empty(members), np.empty(members, bool)
        bins, power, begins = self._memory
        begins[0] = True
        return bins[:members], power[:members], begins[:members]


def _coefficients(rates: NDArray[np.float64], scale: float, octaves: int) -> NDArray[np.float64]:
    """(bin and power, τ) of the polynomials in u, and zeros for a last bin: too far to count."""
    nodes = np.cos(np.pi * (np.arange(_POWERS) + 0.5) / _POWERS)
    starts = 1 + np.arange(_BINS_OF_OCTAVE) / _BINS_OF_OCTAVE
    lengths = 2.0 ** np.arange(octaves)
    least = (lengths[:, None] * starts).ravel()
    z = least[:, None] + np.repeat(lengths, _BINS_OF_OCTAVE)[:, None] * _HALF_A_BIN * (1 + nodes)
    counts = (least[:, None] - 1) / scale * rates < _NEGLIGIBLE
    exponents = (z[:, :, None] - 1) / scale * rates
    values = np.exp(-np.minimum(exponents, 2 * _NEGLIGIBLE)) * counts[:, None]
    inverse = np.linalg.inv(np.vander(nodes * _HALF_A_BIN, increasing=True))
    table = np.zeros((len(least) + 1, _POWERS, len(rates)))
    table[:-1] = inverse @ values
    return table.reshape(-1, len(rates))
