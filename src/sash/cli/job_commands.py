"""The commands with job files, run, explain, new; and the live page of runs: ui."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from sash.cli.commands import Json, app
from sash.cli.main import WrongUsage
from sash.cli.terminal import escaped, is_terminal, write, write_error, write_json, write_tree

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from sash.cli.job_file import Job
    from sash.cli.job_pipeline import PreparedJob
    from sash.cli.page.live_page import LivePage
    from sash.pipeline import Summary

JobPath = Annotated[
    str, typer.Argument(metavar="JOB", help="A job file: TOML, or YAML by its suffix.", show_default=False)
]
Changes = Annotated[list[str], typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Replace a value of the job.")]
Host = Annotated[str, typer.Option(help="The address of the page; by default only this machine can reach it.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; by default a free one.")]

LOOPBACK = "127.0.0.1"


@app.command()
def run(
    job: JobPath,
    once: Annotated[bool, typer.Option("--once", help="Read to the end of the source; the default.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Wait for more rows, until interrupted.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan and the result's columns.")] = False,
    changes: Changes = [],  # noqa: B006 (typer copies it)
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the files of an earlier run that this one writes again.")
    ] = False,
    engine: Annotated[str, typer.Option(help="Where it runs: local or spark; by default that of the job.")] = "",
    on_page: Annotated[bool, typer.Option("--ui", help="Serve a web page that shows the run.")] = False,
    host: Host = LOOPBACK,
    port: Port = 0,
    as_json: Json = False,
) -> None:
    """Run a job: read a source, compute a query, write a sink, each result exactly once."""
    from sash.cli.job_file import ENGINES, nearest, read_job

    if not on_page and (host != LOOPBACK or port):
        raise WrongUsage("--host and --port are those of the page: give --ui as well")
    if once and stream:
        raise WrongUsage("--once and --stream exclude each other")
    if engine and engine not in ENGINES:
        raise WrongUsage(f"--engine {engine} is not known{nearest(engine, ENGINES)}")
    read = read_job(job, changes)
    from sash.cli.job_pipeline import PreparedJob  # a mistake in the job file is found without them
    from sash.cli.job_spark import is_stream

    watching = _watched_run(job, on_page, host, port)
    if (engine or read.engine) == "spark":
        if on_page and not is_stream(read, stream):
            raise WrongUsage(
                "--ui is for streams and the local engine; on a cluster, Spark has a web UI of its own for batches"
            )
        if overwrite:
            raise WrongUsage("--overwrite is for the local engine; on Spark, remove the directory first")
        _run_on_spark(read, stream, dry_run, as_json, watching)
        return
    prepared = PreparedJob(read)
    if dry_run:
        _show_plan(prepared, as_json)
        return
    with watching as watch, _progress(prepared.time_type) as progress:
        done = prepared.run(stream, progress, watch, overwrite)
    _show_summary(done, as_json, _summary_stream(read), prepared.time_type)


@app.command()
def explain(job: JobPath, changes: Changes = [], as_json: Json = False) -> None:  # noqa: B006 (typer copies it)
    """Show the plan of a job as a tree: windows, structures with reasons, shared state, costs."""
    from sash.cli.job_file import read_job

    read = read_job(job, changes)
    from sash.cli.job_pipeline import PreparedJob

    if read.engine == "spark":
        from sash.cli.job_spark import schema_on_spark

        prepared = PreparedJob(read, "spark", schema_on_spark(read))
    else:
        prepared = PreparedJob(read)
    if as_json or not is_terminal():
        _show_plan(prepared, as_json)
    else:
        write_tree(_plan(prepared))


@app.command()
def new(
    data: Annotated[str, typer.Argument(help="A file or directory: Parquet, CSV or JSON lines.", show_default=False)],
    out: Annotated[str, typer.Option(help="Write to this file instead of the standard output.")] = "",
    format_: Annotated[
        str, typer.Option("--format", help="toml or yaml; by default the suffix of --out, else toml.")
    ] = "",
) -> None:
    """Write a commented job from the columns of a file."""
    from sash.cli.job_file import YAML, nearest
    from sash.cli.job_template import FORMATS, job_for

    by_name = "yaml" if out.endswith(YAML) else "toml"
    format_ = format_ or by_name
    if format_ not in FORMATS:
        raise WrongUsage(f"--format {format_} is not known{nearest(format_, FORMATS)}")
    if out and Path(out).suffix not in ("", ".toml", *YAML):
        raise WrongUsage(f"--out {out}: a job is TOML or YAML: name it {Path(out).with_suffix('.toml')}, or .yaml")
    if out and format_ != by_name:
        raise WrongUsage(
            f"--out {out}: by its suffix, `sash run` reads this as {by_name.upper()}, not {format_.upper()}"
        )
    text = job_for(data, format_)
    if not out:
        write(text)
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise WrongUsage(f"--out {out}: the file exists already: remove it, or choose another name") from None


@app.command()
def ui(host: Host = LOOPBACK, port: Port = 0) -> None:
    """Serve a web page with the runs of `sash run` on this machine, until interrupted."""
    from sash.cli.page.live_page import LivePage
    from sash.cli.page.run_directory import RunBoard, run_directory

    run_directory()  # raises now, and not later in the page, if other users can enter it
    with LivePage(host, port, board=RunBoard()) as page, contextlib.suppress(KeyboardInterrupt):
        sys.stdout.write(f"{_address(page)}\n")
        sys.stdout.flush()
        threading.Event().wait()


def _plan(prepared: PreparedJob) -> str:
    """The plan, and the columns that the sink gets."""
    lines = [f"  {escaped(field.name)}  {field.type}" for field in prepared.result_schema()]
    return "\n".join([prepared.made.query.explain(prepared.schema).rstrip(), "", "result", *lines])


def _show_plan(prepared: PreparedJob, as_json: bool) -> None:
    if not as_json:
        write(_plan(prepared) + "\n")
        return
    columns = {field.name: str(field.type) for field in prepared.result_schema()}
    plan = prepared.made.query.explain(prepared.schema)
    write_json({"query": repr(prepared.made.query), "plan": plan, "schema": columns})


def _summary_stream(job: Job) -> TextIO:
    """Where the summary is written: to the standard error if rows are written to the standard output."""
    return sys.stderr if job.get("sink", "kind") == "console" else sys.stdout


def _show_summary(done: Summary, as_json: bool, to: TextIO, dtype: pa.DataType | None) -> None:
    """dtype: the type of the time column."""
    from sash.columns.time_numbers import time_text

    if as_json:
        found = asdict(done)
        del found["examples"]
        found["watermark"] = time_text(done.watermark, dtype)  # type: ignore[arg-type]
        write_json(found, to)
        return
    to.write(_counted(asdict(done), done.finished))
    if done.last_failure:
        write_error(escaped(f"sash: warning: {done.last_failure}"))
    for record in done.examples[:3]:
        write_error(escaped(f"sash: warning: malformed record at {record.where}: {record.reason}"))


def _counted(summary: dict[str, Any], finished: bool) -> str:
    """Counters as readable text, such as "7 rows in, 6 rows out, 1 late"; unknown counters are left out."""
    from sash.cli.job_file import ALWAYS, COUNTERS

    counts = {name: summary.get(name) for name in COUNTERS}
    wanted = {name: number for name, number in counts.items() if number or (name in ALWAYS and number is not None)}
    text = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in wanted.items()) or "done"
    return text + ("\n" if finished else ", not finished\n")


def _run_on_spark(
    read: Job, follow: bool, dry_run: bool, as_json: bool, watching: AbstractContextManager[Callable[..., object]]
) -> None:
    """Run a job on Spark; `watching` is the context in which a stream is watched."""
    from sash.cli.job_pipeline import PreparedJob
    from sash.cli.job_spark import is_stream, require_spark, run_batch, run_stream, schema_on_spark

    require_spark(read, follow)
    stream = is_stream(read, follow)
    prepared = PreparedJob(read, "spark", schema_on_spark(read))
    if dry_run:
        _show_plan(prepared, as_json)
        return
    if stream:
        with watching as watch:
            done = run_stream(prepared, follow, watch=watch)
    else:
        done = run_batch(prepared)
    if as_json:
        write_json(done, _summary_stream(read))
        return
    _summary_stream(read).write(_counted(done, finished=not stream))


@app.command("job-script")
def job_script() -> None:
    """Print the path of the script for spark-submit: spark-submit "$(sash job-script)" job.toml."""
    from importlib.util import find_spec

    found = find_spec("sash.cli.job_script")
    assert found is not None
    write(f"{found.origin}\n")


@contextmanager
def _progress(dtype: pa.DataType | None) -> Iterator[Callable[[Summary], object] | None]:
    """A line with rows, rows/s, the share that is read and the watermark, if the standard error is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    from sash.columns.time_numbers import time_text

    first: tuple[float, int] | None = None
    with Console(stderr=True).status("reading") as status:

        def update(done: Summary) -> None:
            nonlocal first
            now = time.monotonic()
            first = first or (now, done.rows_in)  # the first step compiles, and has the rows of earlier runs
            rate = (done.rows_in - first[1]) / max(now - first[0], 1e-9)
            share = "" if done.share is None else f"{done.share:.0%}, "
            reached = time_text(done.watermark, dtype)  # type: ignore[arg-type]
            watermark = "" if reached is None else f", watermark {reached}"
            status.update(f"{share}{done.rows_in:,} rows, {rate:,.0f} rows/s{watermark}")

        yield update


@contextmanager
def _watched_run(name: str, on_page: bool, host: str = LOOPBACK, port: int = 0) -> Iterator[Callable[..., object]]:
    """List a run for `sash ui`, and serve a page of its own if asked to; yields a function that watches a query.

    name: the name of the run.
    on_page: serve a page, and print its address on the standard error.
    host, port: the address of the page.
    """
    from sash.cli.page.live_page import LivePage
    from sash.cli.page.query_board import QueryBoard
    from sash.cli.page.run_directory import RegisteredRun

    board = QueryBoard()
    with contextlib.ExitStack() as stack:
        stack.callback(board.close)
        if on_page:
            page = stack.enter_context(LivePage(host, port, board=board))
            sys.stderr.write(f"sash: live page: {_address(page)}\n")
            sys.stderr.flush()
        with contextlib.suppress(OSError):  # no directory for sockets: `sash ui` does not list the run
            stack.callback(RegisteredRun(board).close)
        yield lambda running, query=None: board.watch(running, name, query)


def _address(page: LivePage) -> str:
    """The address of a page, with a warning if other machines can reach it."""
    return page.url if page.is_local else f"{page.url} (other machines can see it with the token)"
