"""The loop of a pipeline: read a source, process rows with an operator, write results to a sink, exactly once.

    source ──chunk──▶ operator ──results──▶ sink.prepare
                          │
                          ▼
                one commit to the store: state, position of the source, number of the step
                          │
                          ▼
                     sink.publish

Whenever the process is killed, the store determines which steps are done: the source continues after them, and the
sinks publish or discard pending results. SIGINT and SIGTERM stop it after the current step.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import Any, Literal

import pyarrow as pa

from sash.columns.time_numbers import Watermark
from sash.engine import Uncommitted
from sash.engine.intake.progress import RowCounts
from sash.pipeline.file_sink import ParquetSink
from sash.pipeline.file_source import FileSource, files
from sash.pipeline.function_sink import FunctionSink
from sash.pipeline.piped_query import PipedQuery, piped
from sash.pipeline.selections import FilteredSource, SelectedSink
from sash.pipeline.sink import Sink, SinkTask
from sash.pipeline.source import BatchSource, MalformedRecord, Reading, Source, SourceRows, share_read
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.stores import MemoryStore, Store

# --- Stop signals ---

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


# --- Summary ---


@dataclass(frozen=True)
class Summary:
    """Counters of a pipeline, over all its runs with this store."""

    steps: int
    """Batches that were processed, and one step for the end."""
    rows_in: int
    rows_out: int
    late: int
    """Rows below the watermark."""
    untimed: int
    """Rows whose time is null, NaN, infinite, or too far ahead."""
    malformed: int
    """Records that could not be decoded."""
    watermark: Watermark | dict[str, Watermark]
    """In units of the time column; infinity when the pipeline has finished."""
    offset: Any
    """The position of the source after the last row."""
    finished: bool
    """Has the source ended, and was every result emitted?"""
    problems: tuple[str, ...] = ()
    """Data that the source skipped in this run, and why."""
    examples: tuple[MalformedRecord, ...] = field(default=(), repr=False)
    """The first malformed records of this run."""
    share: float | None = None
    """About the share of the source that has been read, from 0 to 1; None if its end is unknown."""
    failed: int = 0
    """Rows on which an aggregate failed, with `Options(failed="side")`."""
    failed_results: int = 0
    """Results that are null because an aggregate failed on them."""
    last_failure: str = ""
    """The message of the last of them in this run."""


@dataclass(frozen=True)
class PipelinePosition:
    """The `offset` in the state of a pipeline: its identity and progress."""

    run: str
    """The identity of the pipeline: the same in all runs with one store."""
    epoch: int = 0
    source: Any = None
    malformed: int = 0
    finished: bool = False
    output: str = ""
    """The identity of what the sinks get: of the query and the columns of its results."""

    def writing(self, output: str) -> PipelinePosition:
        """The position for this output: that of a new run if it is another one, after a migration of the state.

        A new run continues the source, and begins its output from step 1, in another place.
        """
        if self.output in ("", output):
            return replace(self, output=output)
        return replace(self, run=secrets.token_hex(8), epoch=0, output=output)

    @staticmethod
    def of(offset: Any) -> PipelinePosition:
        """The position in a state; a new one if there is none. Raises ValueError if another program saved it."""
        if offset is None:
            return PipelinePosition(secrets.token_hex(8))
        try:
            return PipelinePosition(**offset)
        except TypeError:
            raise ValueError(
                f"the state in the store has the offset {offset!r}, which no pipeline saved: it belongs to another "
                "program. Use a new store"
            ) from None


# --- Pipeline loop ---

EXAMPLES = 10
"""The maximum number of malformed records in a summary."""

AnySink = Sink | str | os.PathLike[str] | Callable[[pa.RecordBatch, str], object]


def pipe(
    source: Source | str | os.PathLike[str] | Iterable[Any],
    query: Query | Queries,
    sink: AnySink | Mapping[str, AnySink],
    *,
    store: Store | None = None,
    side: AnySink | None = None,
    batch_size: int = 65_536,
    follow: bool = False,
    finish: bool | None = None,
    malformed: Literal["count", "error"] = "count",
    progress: Callable[[Summary], object] | None = None,
    watch: Callable[[Pipeline], object] | None = None,
    stop: threading.Event | None = None,
) -> Summary:
    """Run a query on a source, and write its results to a sink, exactly once.

    source: a directory of files or one file (see `sash.pipeline.files`), an iterable of batches or frames, one frame,
        or a `KafkaSource`.
    query: what to compute: a `Query`, or `Queries`, which share their work and one commit per step.
    sink: a directory for Parquet files, a function that is called as `sink(batch, id)`, or a `KafkaSink`. For `Queries`
        a dict with such a sink for each query, or one for all: its rows have the name of their query as `_query`, and
        a struct for each query, null in the rows of others.
    store: where the state is saved, with the position of the source, in every step. With it a run that was stopped or
        killed continues where it stopped; without it the state is in memory.
    side: a sink for rows that enter no window: late, untimed and malformed ones, with a column `_reason`; with
        `Options(failed="side")` also those on which an aggregate failed. Without it they are only counted.
    batch_size: the maximum number of rows in a step, for files and Kafka. Batches of an iterable are not split.
    follow: at the end of the source wait for more rows, until stopped.
    finish: at the end of the source emit all results; no rows can follow then. True by default, unless `follow`.
    malformed: "count" records that cannot be decoded, or raise an "error" at the first.
    progress: called after each step with a summary.
    watch: called with the running pipeline before its first step, such as `watch` of `sash.live_page()`.
    stop: an event that stops the pipeline after the current step, as SIGINT and SIGTERM do.

    Returns a summary, with counters over all runs with this store. The watermark of `Queries` is a dict by query.

    >>> import pyarrow as pa, sash
    >>> rows = [pa.record_batch({"t": [1, 2], "x": [5, 3]}), pa.record_batch({"t": [3], "x": [4]})]
    >>> def show(batch, id):
    ...     print(batch.to_pydict())
    >>> done = sash.pipe(rows, sash.Query(sash.Time(2), on="t", lateness=0, high=sash.max("x")), show)
    {'t': [1], 'x': [5], 'high': [5]}
    {'t': [2], 'x': [3], 'high': [5]}
    {'t': [3], 'x': [4], 'high': [4]}
    >>> done.rows_in, done.rows_out, done.finished
    (3, 3, True)

    Raises ValueError if the source lacks columns of the query, PageError if the store has the state of another query,
    `SinkError` if the sink has the output of another pipeline.
    """
    work, given = piped(query, sink, store)
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size= must be a number of rows, at least 1; got {batch_size!r}")
    if malformed not in ("count", "error"):
        raise ValueError(f"malformed= must be 'count' or 'error'; got {malformed!r}")
    if store is not None and not isinstance(store, Store):
        raise TypeError(f"store= takes a store, such as sash.stores.RocksDBStore(path); got a {type(store).__name__}")
    if stop is not None and not hasattr(stop, "is_set"):
        raise TypeError(f"stop= takes a threading.Event; got a {type(stop).__name__}")
    if follow and finish:
        raise ValueError("finish=True needs an end of the source, and with follow=True it has none")
    stop = threading.Event() if stop is None else stop
    given |= {} if side is None else {"side": side}
    sinks = [_sink(one, argument) for argument, one in given.items()]
    with ExitStack() as stack:
        opened = _source(source)
        _require_apart(opened, sinks)
        stack.callback(opened.close)
        for one in sinks:
            stack.callback(one.close)
        strict = malformed == "error"
        pipeline = Pipeline(opened, work, sinks, side is not None, strict=strict, progress=progress, watch=watch)
        stack.enter_context(stop_on_signals(stop))
        pipeline.run(Reading(batch_size, follow, stop), not follow if finish is None else finish)
        return pipeline.summary()


class Pipeline:
    """A running pipeline: its operator, its position, and its open sinks.

    strict: raise ValueError at a malformed record, instead of counting it.
    progress: called after each step.
    watch: called before the first step.
    """

    def __init__(
        self,
        source: Source,
        work: PipedQuery,
        sinks: Sequence[Sink],
        has_side: bool,
        *,
        strict: bool = False,
        progress: Callable[[Summary], object] | None = None,
        watch: Callable[[Pipeline], object] | None = None,
    ) -> None:
        self.source, self.work, self.sinks, self.has_side = source, work, sinks, has_side
        self.strict, self.progress, self.watch = strict, progress, watch
        if isinstance(source, FileSource | BatchSource | FilteredSource):
            stored = work.stored_schema()
            if stored is not None:
                source.expect(stored)
        schema = source.schema
        if schema is not None:
            _require_fit(work, schema, source)
        work.open(schema)
        self.position = PipelinePosition.of(work.operator.offset)
        self.tasks: list[SinkTask] = []
        self.examples: list[MalformedRecord] = []
        self.has_begun = False
        """Has a step begun?"""
        if work.operator.schema is not None:
            self._open_sinks()

    def _open_sinks(self) -> None:
        """Open the sinks, which publish or discard pending results. The columns of the results must be known."""
        schemas, store = self.work.schemas(), self.work.store
        self.position = self.position.writing(self._output(schemas))
        if self.has_side:
            schemas["side"] = self.work.side_schema()
        for (name, schema), sink in zip(schemas.items(), self.sinks, strict=True):
            task = SinkTask(
                self.position.run,
                self.position.epoch,
                name,
                schema,
                *self.work.identity,
                MemoryStore() if store is None else store,
                lambda: self.has_begun,
            )
            sink.open(task)
            self.tasks.append(task)

    def _output(self, schemas: Mapping[str, pa.Schema]) -> str:
        """The identity of the results: another query, or other columns of them, need another place."""
        chosen = [sink.columns if isinstance(sink, SelectedSink) else () for sink in self.sinks]
        columns = {name: [f"{field.name} {field.type}" for field in schema] for name, schema in schemas.items()}
        text = repr((self.work.identity[0], columns, chosen[: len(schemas)]))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(self, reading: Reading, finish: bool) -> None:
        """Take steps until the source ends or the pipeline is stopped."""
        if self.watch is not None and self.tasks:
            self.watch(self)
        for chunk in self.source.read(self.position.source, reading):
            if reading.stop.is_set():
                break
            if self.position.finished:
                raise ValueError(
                    f"the pipeline has finished, but the source {self.source!r} has more rows: all windows are closed. "
                    "Start with a new store and sink, and with finish=False ([options] finish = false in a job), which "
                    "keeps windows open for rows of later runs"
                )
            self._step(chunk)
        if finish and not reading.stop.is_set() and not self.position.finished and self.tasks:
            self._commit(replace(self.position, epoch=self.position.epoch + 1, finished=True), None)

    def _step(self, chunk: SourceRows) -> None:
        if chunk.malformed:
            if self.strict:
                raise chunk.malformed[0].error()
            self.examples += chunk.malformed[: EXAMPLES - len(self.examples)]
        if not self.tasks:
            _require_fit(self.work, chunk.batch.schema, self.source)
            self.work.open(chunk.batch.schema)
            self._open_sinks()
            if self.watch is not None:
                self.watch(self)
        malformed = self.position.malformed + len(chunk.malformed)
        reached = replace(self.position, epoch=self.position.epoch + 1, source=chunk.position, malformed=malformed)
        self._commit(reached, chunk)

    def _commit(self, reached: PipelinePosition, chunk: SourceRows | None) -> None:
        """Take one step: prepare its results, commit the state, publish the results."""

        def prepare(step: Uncommitted) -> None:
            batches = self.work.results(step)
            if self.has_side:
                malformed = () if chunk is None else chunk.malformed
                batches.append(self.work.side_rows(self.tasks[-1].schema, step, malformed))
            for sink, batch in zip(self.sinks, batches, strict=True):
                if batch.num_rows:
                    sink.prepare(reached.epoch, batch)

        self.has_begun = True
        self.work.take(None if chunk is None else chunk.batch, asdict(reached), prepare)
        self.position = reached
        for sink in self.sinks:
            sink.publish(reached.epoch)
        self.work.operator.late_rows()  # drop them: they are counted, and in the side output
        self.work.operator.failed_rows()
        if self.progress is not None:
            self.progress(self.summary())

    def summary(self) -> Summary:
        """A summary of all runs with the store so far."""
        at, operator = self.position, self.work.operator
        counts = RowCounts() if operator.schema is None else self.work.counts()
        return Summary(
            steps=at.epoch,
            malformed=at.malformed,
            watermark=operator.watermark,
            offset=at.source,
            finished=at.finished,
            problems=tuple(self.source.problems),
            examples=tuple(self.examples),
            **counts._asdict(),
            share=1.0 if at.finished else share_read(self.source, at.source),
            last_failure="" if operator.schema is None else self.work.last_failure,
        )


def _require_fit(work: PipedQuery, schema: pa.Schema, source: Source) -> None:
    """Raises what `Query.bind` raises for columns that do not fit, naming the source."""
    try:
        work.require_fit(schema)
    except (TypeError, ValueError) as error:
        text = error.args[0] if error.args else error
        if isinstance(error, TypeError) and isinstance(source, FileSource) and source.infers_types:
            text = f"{text}. Types were inferred from the first file: pass files(…, schema=) to set them"
        raise type(error)(f"the source {source!r} does not fit the query: {text}") from error


def _require_apart(source: Source, sinks: Sequence[Sink]) -> None:
    """Raises ValueError if two of source and sinks have the same directory."""
    places = [source.path.resolve()] if isinstance(source, FileSource) else []
    for sink in sinks:
        if isinstance(sink, ParquetSink):
            place = sink.path.resolve()
            if place in places:
                raise ValueError(f"{place} is given twice: source, sink and side output need separate directories")
            places.append(place)


def _source(given: Any) -> Source:
    if isinstance(given, Source):
        return given
    if isinstance(given, str | os.PathLike):
        return files(given)
    if isinstance(given, dict | pa.RecordBatch | pa.Table) or hasattr(type(given), "columns"):
        return BatchSource([given])
    if isinstance(given, Iterable) and not isinstance(given, bytes):
        return BatchSource(given)
    raise TypeError(
        "a source is a directory or a file, an iterable of batches or frames, a frame, a KafkaSource, or an object "
        f"with all of sash.pipeline.Source; got a {type(given).__name__}"
    )


def _sink(given: Any, argument: str) -> Sink:
    if isinstance(given, Sink):
        return given
    if isinstance(given, str | os.PathLike):
        return ParquetSink(given)
    if callable(given):
        return FunctionSink(given)
    raise TypeError(
        f"{argument}= takes a directory for Parquet files, a function of a batch and an id, a KafkaSink, or an object "
        f"with all of sash.pipeline.Sink; got a {type(given).__name__}"
    )
