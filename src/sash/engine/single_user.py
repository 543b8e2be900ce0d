"""A guard for objects that are not thread-safe: concurrent and reentrant use is an error."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType

_USER = "user"


class SingleUser:
    """Guards the methods of an object: `with guard:` around the body of each.

    The guard stores the frame of the running method. If an interrupt has prevented its removal, the guard notices that
    the frame is on no stack.

    >>> guard = SingleUser("this window")
    >>> def outer() -> None:
    ...     with guard:
    ...         inner()
    >>> def inner() -> None:
    ...     with guard:
    ...         pass
    >>> inner()
    >>> outer()
    Traceback (most recent call last):
    ...
    RuntimeError: this window is already running, in this thread: a function that it calls must not call it
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._users: dict[str, FrameType] = {}

    def __enter__(self) -> None:
        mine = sys._getframe(1)
        user = self._users.setdefault(_USER, mine)  # atomic: no other thread runs in between
        if user is mine:
            return
        thread = _thread_of(user)
        if thread is not None:
            raise RuntimeError(
                f"{self.what} is already running, "
                + (
                    "in this thread: a function that it calls must not call it"
                    if thread == _thread_of(mine)
                    else "in another thread: use one for each thread, or a lock around it"
                )
            )
        self._users[_USER] = mine

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users.pop(_USER, None)


def _thread_of(frame: FrameType) -> int | None:
    """The thread on whose stack a frame is; None if it is on none."""
    for thread, top in sys._current_frames().items():
        at: FrameType | None = top
        while at is not None:
            if at is frame:
                return thread
            at = at.f_back
    return None
