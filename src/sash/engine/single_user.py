"""One user at a time: an object that is neither safe in threads nor meant to be refuses a second user at once."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType

_USER = "user"


class SingleUser:
    """Guards the methods of an object: `with guard:` around the body of each.

    The frame of the method that is at work is the mark. If an interrupt has kept one from being taken away, that is
    found out: its frame is on no stack any more.

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
        user = self._users.setdefault(_USER, mine)  # one step: no other thread comes between
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
