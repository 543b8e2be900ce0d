"""Metrics: what an operator has done, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metrics:
    """What an operator has done, and what it holds."""

    rows_in: int
    rows_out: int
    late: int
    untimed: int
    keys: int
    elements: int
    """Items kept for windows to come, and rows that wait in the reorder buffer."""
    state_bytes: int
    pages_read: int
    pages_written: int
