"""The names that completion offers of an operator, and of what is asked as one."""

from __future__ import annotations

from collections.abc import Iterable

CALLS = ("process", "advance", "finish", "run", "late_rows", "failed_rows", "lookup")
STATE = ("snapshot", "restore", "refresh")
VALUES = ("query", "queries", "schema", "mode", "store", "watermark", "due", "offset", "metrics", "structures")


class PublicNames:
    """Lists in `dir` what users call; hosts and tools of sash use more."""

    def __dir__(self) -> Iterable[str]:
        ours = {name for cls in type(self).__mro__ if cls.__module__.startswith("sash.") for name in vars(cls)}
        hidden = (ours | vars(self).keys()).difference(CALLS, STATE, VALUES)
        return [name for name in super().__dir__() if name.startswith("_") or name not in hidden]
