"""Uniform integers from random bytes: exact rejection, never a float, never a modulo bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

WholeNumbers = NDArray[Any]
"""int64 or unsigned integers, or Python integers (dtype object) where 64 bits are too few."""

_WIDTHS = ((2**8, np.uint16), (2**24, np.uint32), (2**63, np.uint64))
"""(largest bound, word): the narrowest word that rejects less than one draw in 256, since random
bytes from the operating system cost more than the arithmetic; above 2^55 up to half is rejected."""


@dataclass(frozen=True, slots=True)
class UniformIntegers:
    """Independent uniform integers below any bound, from a source of random bytes.

    entropy   ``entropy(n)`` returns n fresh, independent, uniform bytes

    >>> import random
    >>> UniformIntegers(random.Random(1).randbytes).below(6, 1000).max()
    np.uint16(5)
    """

    entropy: Callable[[int], bytes] = field(repr=False)

    def below(self, bound: int, size: int) -> WholeNumbers:
        """``size`` integers, each uniform on 0 … bound − 1, for every bound ≥ 1.

        The array is unsigned, or holds Python integers when the bound exceeds 2^63.
        A word w of b bits becomes w // ⌊2^b / bound⌋: every result below ``bound`` comes
        from equally many words, and all other results are rejected and drawn again.
        """
        if bound == 1:
            return np.zeros(size, np.uint16)
        kept = self._attempt(bound, size)
        while kept.size < size:
            kept = np.concatenate([kept, self._attempt(bound, size - kept.size)])
        return kept

    def _attempt(self, bound: int, size: int) -> WholeNumbers:
        """What survives of ``size`` words; whether one survives does not depend on the others."""
        for largest, word in _WIDTHS:
            if bound <= largest:
                width = np.dtype(word).itemsize
                words: WholeNumbers = np.frombuffer(self.entropy(width * size), word)
                break
        else:
            width = bound.bit_length() // 8 + 2
            words = self._python_integers(width, size)
        draws = words // (256**width // bound)
        kept: WholeNumbers = draws[draws < bound]
        return kept

    def _python_integers(self, width: int, size: int) -> WholeNumbers:
        """``size`` uniform integers of ``width`` bytes each."""
        text = self.entropy(width * size)
        words = np.empty(size, object)
        words[:] = [
            int.from_bytes(text[at : at + width], "little") for at in range(0, len(text), width)
        ]
        return words
