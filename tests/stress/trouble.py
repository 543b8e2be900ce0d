"""Inject faults into a running process: a kill, an interrupt, an error of the store or of a user function.

Most faults come at a step that the seed decides: the n-th operation of the store, the n-th call of a function. Some
come at a moment in time, which differs between runs.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sash.engine import Operator
from tests.behaviour.test_interrupts import interrupts
from tests.shared.faults import Fault
from tests.shared.strikes import Strikes
from tests.stress.file_store import nothing

Note = Callable[[str], None]
"""Writes down that something has happened, so that it outlives the process."""


def killed() -> None:
    """Kill the process."""
    os.kill(os.getpid(), signal.SIGKILL)


def failed() -> None:
    """Raise the error of a store."""
    raise Fault("the store is out of reach")


@dataclass
class Strike:
    """A fault at the operation number `at` of a store, before or after it; or in the middle of a write."""

    at: int
    where: str
    act: Callable[[], None]
    pieces: int = 1
    """In the middle: after so many pieces of the write."""


@dataclass
class TroubledStore:
    """A store in files that fails at a chosen operation."""

    store: Any
    note: Note
    strike: Strike | None = None
    count: int = field(default=0)

    def expect(self, strike: Strike | None) -> None:
        """Strike at an operation from now on."""
        self.strike, self.count = strike, 0

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        if self.strike is not None and self.strike.where == "middle":
            return list(self.store.get_many(ids))
        return list(self._during(lambda: self.store.get_many(ids)))

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self._during(lambda: self.store.put_many(pages))

    def delete_many(self, ids: Iterable[str]) -> None:
        self._during(lambda: self.store.delete_many(ids))

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        return iter(self._during(lambda: list(self.store.scan(prefix))))

    def close(self) -> None:
        self.store.close()

    def _during(self, work: Callable[[], Any]) -> Any:
        self.count += 1
        strike = self.strike
        if strike is None or self.count != strike.at:
            return work()
        if strike.where == "before":
            strike.act()
        left = strike.pieces

        def middle() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.note("torn-writes")
                strike.act()

        try:
            self.store.middle = middle if strike.where == "middle" else nothing
            found = work()
        finally:
            self.store.middle = nothing
        strike.act()
        return found


@contextmanager
def ctrl_c(seconds: float) -> Iterator[None]:
    """SIGINT after some seconds."""

    def press(_number: int, _frame: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@dataclass
class Troubles:
    """Draws the faults of calls."""

    store: TroubledStore
    strikes: Strikes
    note: Note
    may_kill: bool

    @contextmanager
    def around(self, chance: random.Random) -> Iterator[None]:
        """A context manager with a fault inside, or none."""
        kinds = ["none", "none", "interrupt", "ctrl-c", "store", "function", *(["kill"] if self.may_kill else [])]
        kind = chance.choice(kinds)
        try:
            if kind == "interrupt":
                with interrupts(chance, chance.choice([50, 300, 900]), again=chance.random() < 0.3):
                    yield
            elif kind == "ctrl-c":
                with ctrl_c(chance.expovariate(300)):
                    yield
            else:
                self._expect(kind, chance)
                yield
        finally:
            self.store.expect(None)
            self.strikes.left = -1

    def _expect(self, kind: str, chance: random.Random) -> None:
        if kind == "function":
            self.strikes.left = chance.randint(1, 20)
        elif kind in ("store", "kill"):
            where = chance.choice(["before", "middle", "middle", "after"])
            act = killed if kind == "kill" else failed
            at = chance.choice([1, 1, 2]) if where == "middle" else chance.randint(1, 4)
            self.store.expect(Strike(at, where, act, chance.choice([1, 1, 2, 3, 5])))


def progress(operator: Operator) -> Any:
    """Values that a call changes if it succeeds."""
    metrics = operator.metrics
    return metrics.rows_in, metrics.rows_out, metrics.late, metrics.untimed, operator.watermark, operator.offset
