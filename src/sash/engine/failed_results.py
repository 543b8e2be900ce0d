"""Results on which an aggregate or a formula fails, for `Options(failed="side")`: they are null, and counted here."""

from __future__ import annotations

import warnings

REMEDY = 'options=sash.Options(failed="side") goes on without it ([options] failed = "side" in a job)'
"""The end of an error's message: how a row or a result that fails does not end the call."""


class FailedResults:
    """Results of a call that have failed and are null: how many, and the message of the last."""

    def __init__(self) -> None:
        self.count, self.message = 0, ""

    def note(self, count: int, message: str) -> None:
        """Count more of them."""
        self.count, self.message = self.count + count, message

    def clear(self) -> None:
        """Begin a call."""
        self.count, self.message = 0, ""

    def warn(self) -> None:
        """Warn of them, on a host without counters."""
        warn_failed(0, self.count, self.message)


def warn_failed(rows: int, results: int, message: str) -> None:
    """Warn of rows and results that have failed on a host without a side output; do nothing if none has."""
    if rows or results:
        text = f"{rows} rows failed and are in no window, {results} results failed and are null"
        warnings.warn(f'{text}, because of Options(failed="side"); one of them: {message}', stacklevel=2)
