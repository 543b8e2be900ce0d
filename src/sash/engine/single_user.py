"""A guard for objects that are not thread-safe: one thread at a time is inside, and others wait or are refused.

process   ┌─── inside ───┐          process of another thread meanwhile: refused
lookup         waits ────┤ inside ┐ lookups wait for it, and for each other, in the order in which they came
lookup           waits ──────────┤ inside ┐
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import suppress
from types import FrameType, TracebackType

_CHANGING, _INSIDE = "changing", "inside"

PATIENCE = 0.05
"""Seconds after which a waiting thread looks whether the one inside has been interrupted and will never leave."""


class SingleUser:
    """Guards the methods of an object: `with guard:` around those that change it, `with guard.reading:` around others.

    A method that changes the object is refused while another one runs. One that reads waits for any that is inside, and
    one that changes the object waits for those that read. Within a method, in the same thread, both are refused.

    The guard stores the frames of methods. If an interrupt has prevented the removal of one, the guard notices that the
    frame is on no stack.

    >>> guard = SingleUser("this window")
    >>> def outer() -> None:
    ...     with guard:
    ...         inner()
    >>> def inner() -> None:
    ...     with guard.reading:
    ...         pass
    >>> inner()
    >>> outer()
    Traceback (most recent call last):
    ...
    RuntimeError: this window is already running, in this thread: a function that it calls must not call it
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.reading = SharedUse(self)
        self._users: dict[str, FrameType] = {}
        """The method that changes the object or waits to do so, and the one that is inside."""
        self._queue: deque[tuple[FrameType, threading.Lock]] = deque()
        """Methods that wait, in the order in which they came, with locks that wake them."""
        self._takes_over = threading.Lock()

    def __enter__(self) -> None:
        mine, users = sys._getframe(1), self._users
        user = users.setdefault(_CHANGING, mine)  # atomic: no other thread runs in between
        if user is mine and users.setdefault(_INSIDE, mine) is mine:
            return  # the usual case: it takes half as long without calls
        if user is not mine:
            thread = _thread_of(user)
            if thread is not None:
                raise self._refused(thread == threading.get_ident())
            users[_CHANGING] = mine
        try:
            self.enter(mine)
        except BaseException:
            users.pop(_CHANGING, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users.pop(_CHANGING, None)
        self._users.pop(_INSIDE, None)
        if self._queue:
            self._wake()

    def enter(self, mine: FrameType) -> None:
        """Let a method in, when those before it have left. Raises RuntimeError if one of them has called it."""
        if self._users.setdefault(_INSIDE, mine) is mine:
            return
        place = mine, threading.Lock()
        place[1].acquire()
        self._queue.append(place)
        try:
            while (user := self._users.setdefault(_INSIDE, mine)) is not mine:
                thread = _thread_of(user)
                if thread == threading.get_ident():
                    raise self._refused(in_this_thread=True)
                if thread is not None:
                    place[1].acquire(timeout=PATIENCE)
                    continue
                with self._takes_over:
                    if self._users.get(_INSIDE) is user:
                        del self._users[_INSIDE]
        except BaseException:
            if self._users.get(_INSIDE) is mine:
                self.leave()
            raise
        finally:
            with suppress(ValueError):
                self._queue.remove(place)

    def leave(self) -> None:
        """Let the next method in."""
        self._users.pop(_INSIDE, None)
        if self._queue:
            self._wake()

    def _wake(self) -> None:
        try:
            place = self._queue.popleft()
        except IndexError:  # it was interrupted
            return
        if self._users.setdefault(_INSIDE, place[0]) is place[0]:
            place[1].release()
        else:
            self._queue.appendleft(place)  # another one was faster: it lets this one in

    def _refused(self, in_this_thread: bool) -> RuntimeError:
        return RuntimeError(
            f"{self.what} is already running, "
            + (
                "in this thread: a function that it calls must not call it"
                if in_this_thread
                else "in another thread: use one for each thread, or a lock around it"
            )
        )


class SharedUse:
    """`with guard.reading:` of a SingleUser."""

    def __init__(self, guard: SingleUser) -> None:
        self._guard = guard

    def __enter__(self) -> None:
        self._guard.enter(sys._getframe(1))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.leave()


def _thread_of(frame: FrameType) -> int | None:
    """The thread on whose stack a frame is; None if it is on none."""
    for thread, top in sys._current_frames().items():
        at: FrameType | None = top
        while at is not None:
            if at is frame:
                return thread
            at = at.f_back
    return None
