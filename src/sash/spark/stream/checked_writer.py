"""The results of a query on a stream, as a DataFrame whose `writeStream` checks the checkpoint when it is started.

Only the writer knows the location of the checkpoint. So results have a subclass of Spark's writer, whose `start` and
`toTable` first check that the checkpoint has the state of this query. DataFrames derived from the results, by `select`
for example, have Spark's own writer again.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sash.spark.stream.stream_spec import StreamSpec

LOCATION = "checkpointLocation"
DEFAULT = "spark.sql.streaming.checkpointLocation"
"""The setting of a session with a default directory; the checkpoint of a query is its subdirectory queryName."""


def with_checks(frame: Any, spec: StreamSpec) -> Any:
    """The DataFrame of a query on a stream, whose `writeStream` checks the checkpoint."""
    kind: Any = type(frame)
    frame.__class__ = _frame_class(kind)
    frame._sash_spec = spec
    return frame


class CheckedWriter:
    """A mixin that adds the check to Spark's DataStreamWriter."""

    _sash_spec: StreamSpec
    _sash_session: Any
    _sash_options: dict[str, Any]

    def option(self, key: str, value: Any) -> Any:
        """As in Spark."""
        self._sash_options[key.lower()] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        """As in Spark."""
        self._sash_options |= {key.lower(): value for key, value in options.items()}
        return super().options(**options)  # type: ignore[misc]

    def queryName(self, queryName: str) -> Any:  # noqa: N802
        """As in Spark."""
        self._sash_options["queryname"] = queryName
        return super().queryName(queryName)  # type: ignore[misc]

    def start(self, *arguments: Any, **options: Any) -> Any:
        """As in Spark. Raises StateMismatch, with what has changed, if the checkpoint is of another query."""
        self._check(options)
        return super().start(*arguments, **options)  # type: ignore[misc]

    def toTable(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        """As in Spark. Raises StateMismatch, with what has changed, if the checkpoint is of another query."""
        self._check(options)
        return super().toTable(*arguments, **options)  # type: ignore[misc]

    def _check(self, options: dict[str, Any]) -> None:
        from sash.spark.stream.checkpoint_check import require_state_of

        given = self._sash_options | {key.lower(): value for key, value in options.items()}
        checkpoint, name = given.get(LOCATION.lower()), given.get("queryname")
        if checkpoint is None and name is not None:
            parent = self._sash_session.conf.get(DEFAULT, None)
            checkpoint = None if parent is None else f"{parent}/{name}"
        if checkpoint is not None:
            require_state_of(self._sash_spec, self._sash_session, str(checkpoint))


@cache
def _frame_class(kind: Any) -> Any:
    """The class of DataFrames of results, for one of Spark's classes of DataFrames."""

    def checked(frame: Any) -> Any:
        writer = kind.writeStream.fget(frame)
        own: Any = type(writer)
        writer.__class__ = _writer_class(own)
        writer._sash_spec, writer._sash_session, writer._sash_options = frame._sash_spec, frame.sparkSession, {}
        return writer

    place = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), place | {"writeStream": property(checked)})


@cache
def _writer_class(kind: Any) -> Any:
    place = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (CheckedWriter, kind), place)
