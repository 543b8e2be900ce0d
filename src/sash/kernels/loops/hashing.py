"""Hashes of texts: polynomials modulo two primes below 2**31, so that plain Python and compiled code agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.kernels.loops.loop_cache import call_loop, with_python_integers


def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A 62-bit hash of each text data[offsets[i] : offsets[i + 1]].

    >>> import numpy as np
    >>> hash_texts(np.array([0, 1, 2]), np.frombuffer(b"aa", np.uint8)).tolist()[0]
    762356760737
    """
    out = np.zeros(len(offsets) - 1, np.int64)
    call_loop(hash_all, "", (np.ascontiguousarray(offsets), np.ascontiguousarray(data), out))
    return out.astype(np.uint64)


@with_python_integers
def hash_all(offsets: Any, data: Any, out: Any) -> None:
    """Fill `out` with the hash of each text."""
    for i in range(len(out)):
        one, two = 1, 1
        for j in range(offsets[i], offsets[i + 1]):
            one = (one * 257 + data[j] + 1) % 2147483647
            two = (two * 65599 + data[j] + 1) % 2147483629
        out[i] = (one << 31) | two
