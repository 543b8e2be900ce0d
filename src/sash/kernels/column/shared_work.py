"""Share tasks among threads, some of which may fail to start.

`threading.Thread.start` waits for the new thread, and hangs if that runs out of memory before it signals its start.
Here the calling thread takes tasks, too, and waits only for threads that have started to work.

    tasks     0 1 2 3 4 5 6 7
    caller    0   2     5   7   ──▶ waits for the helper, which has taken tasks
    helper      1   3 4   6
    helper    never ran         ──▶ not waited for: when it runs there is no task left
"""

from __future__ import annotations

import _thread
from collections.abc import Callable, Sequence
from typing import Any

Task = Callable[[int, int], Any]


class SharedWork:
    """A task for each of some ranges, and the threads that take them."""

    def __init__(self, task: Task, ranges: Sequence[tuple[int, int]]) -> None:
        self.task, self.ranges = task, ranges
        self.results: list[Any] = [None] * len(ranges)
        self.errors: list[BaseException | None] = [None] * len(ranges)
        self.pending = list(range(len(ranges) - 1, -1, -1))
        """Ranges that no thread has taken, the next one last: popping is atomic."""

    def run(self, threads: int) -> list[Any]:
        """The results of all ranges, computed by `threads` threads, including this one. Raises a task's exception."""
        helpers = [Helper(self) for _ in range(threads - 1)]
        try:
            for helper in helpers:
                helper.start()
            self.take_all()
        finally:  # also after an interrupt: helpers write to the caller's arrays
            self.pending.clear()
            for helper in helpers:
                helper.wait()
        for error in self.errors:
            if error is not None:
                raise error
        return self.results

    def take_all(self) -> None:
        """Run tasks until no range is left."""
        while self.pending:
            try:
                number = self.pending.pop()
            except IndexError:  # another thread was faster
                return
            try:
                self.results[number] = self.task(*self.ranges[number])
            except Exception as error:
                self.errors[number] = error


class Helper:
    """A helper thread."""

    def __init__(self, work: SharedWork) -> None:
        self.work = work
        self.is_working = False
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def start(self) -> None:
        """Start the thread, if the system allows it."""
        try:
            _thread.start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):
            return

    def _run(self) -> None:
        self.is_working = True
        try:
            self.work.take_all()
        finally:
            self.done.release()

    def wait(self) -> None:
        """Wait until the thread has finished, if it has started; no task is left to take."""
        if self.is_working:
            self.done.acquire()
