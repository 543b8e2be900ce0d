"""A round of the stress test: one random query, run by processes that are killed and continue from files.

    parent     the reference computes the results of each call; those of an operator without faults are equal
    child 1    ●──●──●──✗           killed, interrupted, with a store and user's functions that fail
    child 2          ●──●──✗        opened from the files of the store, at the call that it finds there
    child 3             ●──●──●     the last one lives
    parent     all results compared with those of the reference

A store whose writes are atomic has always every call that has succeeded. One whose writes are not may refuse a torn
write with a PageError, and the round ends there.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.engine import Operator
from sash.kernels import InterpretedWarning
from sash.stores import PageError
from tests.shared.faults import Fault
from tests.shared.small_state import small_pages
from tests.shared.streams import cases
from tests.shared.strikes import Strikes, Struck
from tests.stress.drawing import drawn, few_aggregates, raising_sum
from tests.stress.file_store import LogStore, PageFiles
from tests.stress.playing import Play
from tests.stress.trouble import TroubledStore, Troubles, progress

DONE, FAILED, REFUSED = 0, 1, 3
"""How a child ends; else it was killed."""

PLAYS = 4
"""How often a query is run."""

LIVES = 5
"""At most this many children are killed; the next one runs to its end."""

PATIENCE = 300.0
"""Seconds after which a child hangs."""

TRIES = 4
"""So often a call may fail before it is left alone."""


class Failure(Exception):
    """A round that went wrong."""


class Round:
    """One random query, run several times with other faults: the reference and compiling are slow, and done once."""

    def __init__(self, seed: int, max_rows: int = 60, all_aggregates: bool = True) -> None:
        chance = random.Random(seed)
        self.seed, self.is_tiny = seed, chance.random() < 0.7
        self.strikes = Strikes()
        case: Any = few_aggregates(max_rows, {"raising": raising_sum(self.strikes)("i")})
        if chance.random() < 0.6:
            case = few_aggregates(max_rows)
        if all_aggregates and chance.random() < 0.15:
            case = cases(max_rows)
        self.play = Play(drawn(case, seed))

    def run(self) -> Counter[str]:
        """Run the round. Raises Failure."""
        counts: Counter[str] = Counter()
        with warnings.catch_warnings(), small_pages(2) if self.is_tiny else nullcontext():
            warnings.simplefilter("ignore", InterpretedWarning)
            try:
                assert len(self.play.clean) == len(self.play.expected)
            except Exception as error:
                raise Failure(f"an operator that nothing has happened to is wrong:\n{report_of(error)}") from error
            for number in range(PLAYS):
                with tempfile.TemporaryDirectory(prefix="sash-stress-") as folder:
                    counts += TroubledPlay(self, f"{self.seed} {number}", Path(folder)).run()
        counts["queries"] += 1
        return counts


class TroubledPlay:
    """Runs a query in processes that are killed."""

    def __init__(self, of: Round, seed: str, folder: Path) -> None:
        self.play, self.strikes, self.seed, self.folder = of.play, of.strikes, seed, folder
        self.is_atomic = random.Random(seed).random() < 0.5
        self.counts: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """Run children until one has come to the end. Raises Failure."""
        clean, ended = self.play.clean, self._lives()
        self.counts += self._events()
        self.counts["rows"] += self.play.case.data.num_rows
        results = [self._result(number) for number in range(len(clean))]
        last = max((i for i, result in enumerate(results) if result is not None), default=-1)
        calls = len(clean) if ended == DONE else last + 1
        try:
            self.play.check([clean[i] if result is None else result for i, result in enumerate(results[:calls])])
        except Exception as error:
            raise Failure(f"results differ from those of the reference:\n{self._format_failure(error)}") from error
        return self.counts

    def _lives(self) -> int:
        """Run one child after the other, and return how the last one ended."""
        for life in range(LIVES + 1):
            is_last = life == LIVES
            ended = self._watched(life, is_last)
            self.counts["reopenings"] += life > 0
            if ended in (DONE, REFUSED):
                self.counts["refused"] += ended == REFUSED
                return ended
            if ended != -signal.SIGKILL or is_last:
                raise Failure(f"child {life} ended with {ended}:\n{self._words('failure')}")
            self.counts["kills"] += 1
        raise AssertionError("the last child ends the round")

    def _watched(self, life: int, is_last: bool) -> int:
        """Start a child, and wait for it; it may be killed at a random moment."""
        chance = random.Random(f"{self.seed} {life}")
        sys.stdout.flush()
        child = os.fork()
        if not child:
            self._live(life, not is_last)
        until = chance.expovariate(10) if not is_last and chance.random() < 0.3 else PATIENCE
        start = time.monotonic()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() - start > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                if until == PATIENCE:
                    raise Failure(f"child {life} hangs")
                return -signal.SIGKILL
            time.sleep(0.001)

    # ---- in the child ----

    def _live(self, life: int, may_kill: bool) -> None:
        """Run until the end, or until a fault. Does not return."""
        code = FAILED
        try:
            code = self._run_steps(life, may_kill)
        except BaseException as error:
            (self.folder / "failure").write_text(self._format_failure(error))
        finally:
            os._exit(code)

    def _run_steps(self, life: int, may_kill: bool) -> int:
        inner = LogStore(self.folder) if self.is_atomic else PageFiles(self.folder, f"{self.seed} {life}")
        store = TroubledStore(inner, self._note)
        troubles = Troubles(store, self.strikes, self._note, may_kill)
        try:
            operator = self._tried(troubles, f"{life} open", lambda: self.play.opened(store))
            number = self.play.done(operator)
            while number < len(self.play.steps):
                if number in self.play.reopened:
                    operator = self._reopened(operator, store, number)
                self._call(operator, troubles, number, life)
                number += 1
            return DONE
        except PageError:
            if self.is_atomic:
                raise
            return REFUSED

    def _reopened(self, operator: Operator, store: TroubledStore, number: int) -> Operator:
        """Open another operator, unless the store may have more of a call than has succeeded."""
        if self.play.done(operator) != number:
            return operator
        found = self.play.opened(store)
        if self.play.done(found) != number:
            return operator
        self._note("reopenings")
        return found

    def _tried(self, troubles: Troubles, what: str, work: Callable[[], Any]) -> Any:
        """Repeat a call that may fail until it succeeds."""
        for attempt in range(TRIES):
            try:
                with troubles.around(random.Random(f"{self.seed} {what} {attempt}")):
                    return work()
            except (KeyboardInterrupt, Fault, Struck) as error:
                self._note(type(error).__name__)
        return work()

    def _call(self, operator: Operator, troubles: Troubles, number: int, life: int) -> None:
        """Make a call until it has succeeded; its result is written to a file, or lost."""
        before = progress(operator)

        def call() -> Any:
            if progress(operator) != before:
                return None  # an interrupt has come when the call had succeeded already
            return self.play.call(operator, number)

        self._note("calls")
        found = self._tried(troubles, f"{life} {number}", call)
        if found is None:
            self._note("refused-calls" if number == len(self.play.expected) else "lost-results")
            return
        path = self.folder / f"result {number}"
        with pa.ipc.new_file(str(path) + ".new", found.schema) as file:
            file.write_batch(found)
        os.replace(str(path) + ".new", path)

    # ---- what the children leave ----

    def _note(self, event: str) -> None:
        with (self.folder / "events").open("a") as file:
            file.write(event + "\n")

    def _events(self) -> Counter[str]:
        return Counter(self._words("events").split("\n")[:-1])

    def _words(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else "it has left no word"

    def _result(self, number: int) -> pa.RecordBatch | None:
        path = self.folder / f"result {number}"
        if not path.exists():
            return None
        with pa.ipc.open_file(path) as file:
            return file.get_batch(0)

    def _format_failure(self, error: BaseException) -> str:
        return f"{report_of(error)}\nstore: {'log' if self.is_atomic else 'page files'}"


def report_of(error: BaseException) -> str:
    """An error with the place where it was raised."""
    return "".join(traceback.format_exception(error))


def play_round(seed: int, **arguments: Any) -> Counter[str]:
    """Run the round of a seed. Raises Failure."""
    made = Round(seed, **arguments)
    try:
        return made.run()
    except Failure as failure:
        raise Failure(f"{failure}\n{made.play.case!r}") from failure
