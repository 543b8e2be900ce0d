"""The commands with job files: run, explain, new."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sash.cli.commands import Json, app
from sash.cli.main import WrongUsage

JobPath = Annotated[str, typer.Argument(metavar="JOB", help="A job file in TOML.", show_default=False)]
Changes = Annotated[list[str], typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Replace a value of the job.")]


@app.command()
def run(  # noqa: PLR0913 (options of a command)
    job: JobPath,
    once: Annotated[bool, typer.Option("--once", help="Read to the end of the source and stop; the default.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Wait for more rows, until interrupted.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and the result's columns alone.")] = False,
    changes: Changes = [],  # noqa: B006 (typer copies it)
    engine: Annotated[str, typer.Option(help="Where it runs: local or spark; by default what the job says.")] = "",
    as_json: Json = False,
) -> None:
    """Run a job: read a source, compute a query, write a sink, each result exactly once."""
    from sash.cli.job_file import ENGINES, nearest, read_job
    from sash.cli.job_pipeline import PreparedJob

    if once and stream:
        raise WrongUsage("--once and --stream exclude each other")
    if engine and engine not in ENGINES:
        raise WrongUsage(f"--engine {engine} is not known{nearest(engine, ENGINES)}")
    read = read_job(job, changes)
    on_spark = (engine or read.tables.get("engine")) == "spark"
    if on_spark:
        from sash.cli.job_spark import require_batch

        require_batch(read)
        if stream:
            raise WrongUsage("--stream does not go with engine spark: use engine local, or sash.rolling on a stream")
    prepared = PreparedJob(read)
    if dry_run:
        _show_plan(prepared, as_json)
        return
    if on_spark:
        _run_on_spark(prepared, as_json)
        return
    with _progress() as progress:
        done = prepared.run(stream, progress)
    _show_summary(done, as_json)


@app.command()
def explain(job: JobPath, changes: Changes = [], as_json: Json = False) -> None:  # noqa: B006 (typer copies it)
    """Show the plan of a job as a tree: windows, structures with reasons, shared state, costs."""
    from sash.cli.job_file import read_job
    from sash.cli.job_pipeline import PreparedJob
    from sash.cli.terminal import is_terminal, write_tree

    prepared = PreparedJob(read_job(job, changes))
    if as_json or not is_terminal():
        _show_plan(prepared, as_json)
    else:
        write_tree(_plan(prepared))


@app.command()
def new(
    data: Annotated[str, typer.Argument(help="A file or directory: Parquet, CSV or JSON lines.", show_default=False)],
    out: Annotated[str, typer.Option(help="Write to this file instead of the standard output.")] = "",
) -> None:
    """Write a commented job from the columns of a file."""
    from sash.cli.job_template import job_for

    text = job_for(data)
    if not out:
        sys.stdout.write(text)
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise WrongUsage(f"--out {out}: the file exists already: remove it, or choose another name") from None


def _plan(prepared: Any) -> str:
    """The plan, and the columns that the sink gets."""
    lines = [f"  {field.name}  {field.type}" for field in prepared.result_schema()]
    return "\n".join([prepared.made.query.explain(prepared.schema).rstrip(), "", "result", *lines])


def _show_plan(prepared: Any, as_json: bool) -> None:
    from sash.cli.terminal import write_json

    if not as_json:
        sys.stdout.write(_plan(prepared) + "\n")
        return
    columns = {field.name: str(field.type) for field in prepared.result_schema()}
    plan = prepared.made.query.explain(prepared.schema)
    write_json({"query": repr(prepared.made.query), "plan": plan, "schema": columns})


def _show_summary(done: Any, as_json: bool) -> None:
    from sash.cli.terminal import write_json

    if as_json:
        found = asdict(done)
        del found["examples"]
        found["watermark"] = _watermark(done.watermark)
        write_json(found)
        return
    counts = [f"{done.rows_in} rows in", f"{done.rows_out} rows out"]
    counts += [f"{number} {name}" for name in ("late", "untimed", "malformed") if (number := getattr(done, name))]
    sys.stdout.write(", ".join(counts) + ("\n" if done.finished else ", not finished\n"))
    for record in done.examples[:3]:
        sys.stderr.write(f"sash: warning: malformed record at {record.where}: {record.reason}\n")


def _run_on_spark(prepared: Any, as_json: bool) -> None:
    from sash.cli.job_spark import run_on_spark
    from sash.cli.terminal import write_json

    done = run_on_spark(prepared)
    if as_json:
        write_json(done)
    else:
        sys.stdout.write(f"{done['rows_in']} rows in, {done['rows_out']} rows out\n")


def _watermark(value: Any) -> Any:
    return None if value is None or (isinstance(value, float) and not math.isfinite(value)) else value


@contextmanager
def _progress() -> Iterator[Callable[[Any], object] | None]:
    """A line with rows, rows/s and the watermark, while a person looks at the standard error."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    first: tuple[float, int] | None = None
    with Console(stderr=True).status("reading") as status:

        def update(done: Any) -> None:
            nonlocal first
            now = time.monotonic()
            first = first or (now, done.rows_in)  # the first step compiles, and has the rows of earlier runs
            rate = (done.rows_in - first[1]) / max(now - first[0], 1e-9)
            status.update(f"{done.rows_in:,} rows, {rate:,.0f} rows/s, watermark {_watermark(done.watermark)}")

        yield update
