"""SlickDequeInv: one running aggregate for each range, from which leaving elements are subtracted exactly.

Shein, Chrysanthis, Labrinidis: SlickDeque: High Throughput and Low Latency Incremental Sliding-Window
Aggregation, EDBT 2018, section 3.2, algorithm 1.

Needs `inverse`, with its exact law. Two ⊕ per range and slide in the worst case, none per query. The whole window
is one more range while it is longer than all others; else the longest range is the whole window. Space n + ranges.

    partials    v v v v v v v v v          answers[0], spans[0] = 7      ⊕ over the youngest 7
                F                 E        answers[1], spans[1] = 3      ⊕ over the youngest 3
                └──── total ──────┘
                    └──── 7 ──────┘        insert: answer ⊕ v, then subtract the oldest of the range
                            └─ 3 ─┘

As long as a range is not filled, nothing is subtracted: the paper fills the array with the identity and subtracts
that. A range that was not registered is computed from the next longer or shorter one.

Invariants: partials[F:E] are the window's elements; spans are the distinct ranges, longest first; answers[k] is ⊕ over
the youngest spans[k], of all if there are fewer; total is ⊕ over the window if it is longer than spans[0], else the
identity.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect
from sash.aggregators.in_order import RegisteredRanges
from sash.aggregators.storage import Ints, Queue


class SlickDequeInv(RegisteredRanges):
    """A running aggregate for each range, from which leaving elements are subtracted exactly.

    >>> from sash.monoids import Sum
    >>> window = SlickDequeInv(Sum(), ranges=(1, 2))
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.query(), window.query_ranges()
    (6, (2, 3))
    >>> window.evict(); window.query()
    3

    Raises TypeError for a monoid without `inverse`.
    """

    needs: ClassVar[tuple[str, ...]] = ("inverse",)

    by_position: ClassVar[tuple[str, ...]] = ("partials", "F", "E")

    partials: Queue
    answers: Queue
    spans: Ints
    count: int
    longest: int
    total: State
    F: int
    E: int

    def push(self, v: State) -> None:
        size = self.size()
        if size >= self.longest:  # from here on no range is the whole window
            self.total = self.combine(self.aggregate(), v)
        for k in range(self.count):
            answer = self.combine(self.answers[k], v)
            n = self.spans[k]
            self.answers[k] = self.inverse(answer, self.partials[self.E - n]) if n <= size else answer
        self.partials[self.E] = v
        self.E += 1

    def pop(self) -> None:
        oldest = self.partials[self.F]
        size = self.size()
        if size > self.longest + 1 or self.count == 0:
            self.total = self.inverse(self.total, oldest)
        elif size > self.longest:
            self.total = self.identity
        k = 0
        while k < self.count and self.spans[k] >= size:
            self.answers[k] = self.inverse(self.answers[k], oldest)
            k += 1
        self.partials.drop_front(self.F)
        self.F += 1

    def aggregate(self) -> State:
        return self.total if self.size() > self.longest or self.count == 0 else self.answers[0]

    def answer(self, k: int, _n: int) -> State:
        return self.answers[k]

    def last(self, n: int) -> State:
        """No ⊕ for a registered range; else one for each element between n and the nearest range."""
        size = self.size()
        k = self.rank(n)
        shorter = self.spans[k] if k < self.count else 0
        longer = min(self.spans[k - 1], size) if k > 0 else size
        if n >= longer:
            return self.aggregate()
        if n - shorter <= longer - n:
            total = self.answers[k] if k < self.count else self.identity
            for i in range(self.E - shorter - 1, self.E - n - 1, -1):
                total = self.combine(self.partials[i], total)
        else:
            total = self.answers[k - 1] if k > 0 else self.aggregate()
            for i in range(self.E - longer, self.E - n):
                total = self.inverse(total, self.partials[i])
        return total

    def track(self, n: int) -> None:
        """Maintain a running aggregate of the youngest n from now on."""
        k = self.rank(n)
        if k < self.count and self.spans[k] == n:
            return
        answer = self.last(n) if self.size() else self.identity
        for i in range(self.count, k, -1):
            self.spans[i] = self.spans[i - 1]
            self.answers[i] = self.answers[i - 1]
        self.spans[k] = n
        self.answers[k] = answer
        self.count += 1
        self.longest = self.spans[0]
        if self.size() <= self.longest:
            self.total = self.identity

    def rank(self, n: int) -> int:
        """The number of ranges longer than n."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.spans[middle] > n:
                low = middle + 1
            else:
                high = middle
        return low

    def element(self, i: int) -> State:
        return self.partials[i]

    def check_invariants(self) -> None:
        super().check_invariants()
        spans = [self.spans[k] for k in range(self.count)]
        assert spans == sorted({*self.ranges}, reverse=True), f"SlickDequeInv: {spans} are not the ranges {self.ranges}"
        longest = max(spans, default=0)
        assert self.longest == longest, f"SlickDequeInv: longest is {self.longest}, the ranges are {spans}"
        for k, n in enumerate(spans):
            expect(self, f"answers[{k}]", self.answers[k], self.sum_of(max(self.F, self.E - n), self.E))
        total = self.sum_of(self.F, self.E) if self.size() > longest else self.identity
        expect(self, "total", self.total, total)
