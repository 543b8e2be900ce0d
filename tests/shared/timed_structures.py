"""The time-ordered structures of the catalogue."""

from __future__ import annotations

from sash.aggregators.catalogue import CATALOGUE

TIMED = {name: record for name, record in CATALOGUE.items() if record.timed}
