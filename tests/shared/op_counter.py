"""Counting ⊕: the monoid that `Queries.explain` counts with."""

from sash.engine.op_counter import OpCounter

__all__ = ["OpCounter"]
