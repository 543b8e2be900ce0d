"""Names in Spark's UI: of functions in plans, and of the jobs that sash starts itself.

what                       classic session                        Connect
functions in plans         their name, see `shipping`             the same
jobs that sash starts      the description of jobs and stages     a tag
micro-batches              queryName and the number of the batch, which Spark sets
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sash.plan.query import Query
from sash.spark.session import is_connect

DESCRIPTION = "spark.job.description"
"""The local property of a thread that Spark's UI shows as the description of its jobs and stages."""


def outline(query: Query) -> str:
    """A short description of a query, for a name.

    >>> import sash
    >>> outline(sash.Query("1h", by="symbol", on="ts", high=sash.max("price"), n=sash.count()))
    'high, n by symbol'
    """
    names = [*query.aggregates]
    listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return f"{listed} by {', '.join(query.by)}" if query.by else listed


@contextmanager
def job(session: Any, name: str) -> Iterator[None]:
    """Name the jobs of this block: a description in a classic session, a tag over Connect."""
    if is_connect(session):
        tag = name.replace(",", ";")  # Spark separates tags by commas
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)
        return
    context = session.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, name)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)
