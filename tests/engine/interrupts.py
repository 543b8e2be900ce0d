"""Raise KeyboardInterrupt before a chosen line of a module."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any


def interrupted(work: Callable[[], object], module: ModuleType, lines: int) -> bool:
    """Do some work, and interrupt it after this many lines of a module; False if the work ends before."""
    left = lines

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    result: list[BaseException | None] = []

    def run() -> None:  # in a thread of its own, so that a tracer of coverage is left alone
        sys.settrace(trace)
        try:
            work()
            result.append(None)
        except BaseException as error:
            result.append(error)
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    (error,) = result
    if error is not None and not isinstance(error, KeyboardInterrupt):
        raise error
    return error is not None
