"""Reads a source of files to its end, for the tests of files."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from sash.pipeline import Reading, SourceRows


def read(source: Any, position: Any = None, size: int = 30) -> list[SourceRows]:
    return list(source.read(position, Reading(size, False, threading.Event())))


def table(chunks: list[SourceRows]) -> pa.Table:
    return pa.Table.from_batches([chunk.batch for chunk in chunks])
