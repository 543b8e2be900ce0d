"""The command bench."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sash.cli.commands import Json, app
from sash.cli.escaped_text import write_error
from sash.cli.job_commands import Changes

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.cli.bench import BenchCase
    from sash.cli.job_pipeline import PreparedJob


@app.command()
def bench(
    job: Annotated[str, typer.Argument(metavar="[JOB]", help="A job whose query and rows are measured.")] = "",
    rows: Annotated[int, typer.Option(min=1, help="Rows to generate, or at most to read of the job.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Different keys of the generated rows.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured; the fastest counts.")] = 3,
    changes: Changes = [],  # noqa: B006 (typer copies it)
    as_json: Json = False,
) -> None:
    """Measure queries on this machine, and compare with pandas, polars and DuckDB if they are installed."""
    from sash.cli.bench import measure, not_comparable, standard_cases
    from sash.cli.environment import environment
    from sash.cli.terminal import write_json, write_rows

    cases = [_case(job, changes, rows)] if job else [*standard_cases(rows, keys)]
    found = []
    with _bar(cases) as counted:
        for case in counted:
            found += measure(case, rounds)
            if why := not_comparable(case):
                write_error(f"sash: {case.name}: measured without rivals: {why}")
    size = cases[0].table.num_rows
    if as_json:
        write_json({"rows": size, "environment": environment(), "measured": [one.to_json() for one in found]})
        return
    names = ["query", "engine", "ms", "rows/s", "× sash", "equal"]
    lines = [
        [one.case, one.engine, round(one.seconds * 1000, 1), round(one.rows_per_second), round(one.ratio, 2), one.equal]
        for one in found
    ]
    printed = [[*line[:-1], "yes" if line[-1] else "no"] for line in lines]
    write_rows(names, printed, f"{size:,} rows, the fastest of {rounds}; × sash: how many times the time of sash")


def _case(job: str, changes: list[str], most: int) -> BenchCase:
    """The query of a job, on the rows of its source in order of time."""
    import pyarrow as pa

    from sash.cli.bench import BenchCase
    from sash.cli.job_file import read_job
    from sash.cli.job_pipeline import PreparedJob

    read = read_job(job, changes)
    prepared = PreparedJob(read, read.engine)
    table = pa.Table.from_batches(_batches(prepared, most), prepared.schema).slice(0, most)
    if not table.num_rows:
        raise ValueError(f"{job}: the source has no rows to measure with")
    query = prepared.made.query
    if query.on:
        table = table.sort_by([(name, "ascending") for name in query.on])
    return BenchCase(job, query, table)


def _batches(prepared: PreparedJob, most: int) -> Iterator[pa.RecordBatch]:
    import threading

    from sash.cli.table_files import CHUNK
    from sash.pipeline.source import Reading

    count = 0
    for chunk in prepared.source.read(None, Reading(CHUNK, follow=False, stop=threading.Event())):
        yield chunk.batch
        count += chunk.batch.num_rows
        if count >= most:
            break


@contextmanager
def _bar(cases: list[BenchCase]) -> Iterator[Iterable[BenchCase]]:
    """The cases, with a progress bar if the standard error is a terminal."""
    if not sys.stderr.isatty():
        yield cases
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield progress.track(cases, description="measuring")
