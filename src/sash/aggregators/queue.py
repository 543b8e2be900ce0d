"""The storage of the in-order structures: slots by absolute position, in fixed chunks.

    chunks   {  7: [· · · v v v v v],  8: [v v v v v v v v],  9: [v v · · · · · ·] }
    positions             ▲ oldest                                  ▲ youngest

Reading, writing and dropping a slot take constant time in the worst case: a chunk is created when its first slot is
written and dropped with its last, nothing is copied, and memory grows and shrinks with the window. Compiled code has a
ring of fixed capacity with the same methods (`kernels/jit/numba_arrays.py`).
"""

from __future__ import annotations

from typing import Any, Self

BITS = 7
SIZE = 1 << BITS
MASK = SIZE - 1


class Queue:
    """Slots addressed by an absolute position, dropped at either end."""

    __slots__ = ("chunks",)

    def __init__(self) -> None:
        self.chunks: dict[int, list[Any]] = {}

    def __getitem__(self, position: int) -> Any:
        return self.chunks[position >> BITS][position & MASK]

    def __setitem__(self, position: int, value: Any) -> None:
        chunk = self.chunks.get(position >> BITS)
        if chunk is None:
            chunk = self.chunks[position >> BITS] = [None] * SIZE
        chunk[position & MASK] = value

    def drop_front(self, position: int) -> None:
        """Drop the lowest slot in use."""
        if position & MASK == MASK:
            del self.chunks[position >> BITS]
        else:
            self.chunks[position >> BITS][position & MASK] = None

    def drop_back(self, position: int) -> None:
        """Drop the highest slot in use."""
        if position & MASK == 0:
            del self.chunks[position >> BITS]
        else:
            self.chunks[position >> BITS][position & MASK] = None

    def drop_some(self, start: int, stop: int) -> int:
        """Drop the slots from `start` up to `stop` that are in the first chunk; all before must have been dropped.

        Returns the first slot that is not dropped. Slots that were never written count as dropped.
        """
        stop = min(stop, (start | MASK) + 1)
        if stop & MASK == 0:
            self.chunks.pop(start >> BITS, None)
        elif (chunk := self.chunks.get(start >> BITS)) is not None:
            chunk[start & MASK : stop & MASK] = [None] * (stop - start)
        return stop

    def drop_all(self) -> None:
        """Drop every slot."""
        self.chunks.clear()

    def forget(self, position: int) -> None:
        """Release the value of a slot. The slot stays in use: it is written before it is read again."""
        self.chunks[position >> BITS][position & MASK] = None

    def slots(self) -> int:
        """The number of allocated slots, in use or not."""
        return SIZE * len(self.chunks)

    def copy(self) -> Self:
        """A copy with the same positions."""
        twin = type(self)()
        twin.chunks = {number: chunk.copy() for number, chunk in self.chunks.items()}
        return twin


class Ints(Queue):
    """A queue of integers (positions, lengths): compiled, a column of 64-bit integers."""

    __slots__ = ()
