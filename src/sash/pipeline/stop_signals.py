"""Stop a pipeline after the current step at SIGINT and SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at the first of these signals. A second one has its usual effect: Ctrl-C twice interrupts.

    Python delivers signals only to its main thread; in another thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        restore()

    try:
        for number in SIGNALS:
            signal.signal(number, handle)
        yield
    finally:
        restore()
