"""The commands that read state: inspect, lookup."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer

from sash.cli.commands import Json, app
from sash.cli.job_commands import Changes, JobPath
from sash.cli.main import WrongUsage


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="A snapshot, a store of RocksDB, or a checkpoint of a Spark stream.")],
    top: Annotated[int, typer.Option(min=0, help="How many of the largest keys to show.")] = 3,
    job: Annotated[str, typer.Option(help="The job of the state, if it has user-defined aggregates.")] = "",
    as_json: Json = False,
) -> None:
    """Show the content of a state: its query, watermark, offset, keys, the largest keys, pages and bytes."""
    from sash.cli.job_file import read_job
    from sash.cli.job_pipeline import PreparedJob
    from sash.cli.state_summary import state_summary, summary_lines
    from sash.cli.terminal import write_json, write_rows

    read = read_job(job) if job else None
    query = None if read is None else PreparedJob(read, read.engine).made.query
    found = state_summary(path, top, query)
    if as_json:
        write_json(found)
    else:
        write_rows(["what", "value"], summary_lines(found))


@app.command()
def lookup(
    job: JobPath,
    keys: Annotated[list[str] | None, typer.Argument(metavar="COLUMN=VALUE", help="A value for each column.")] = None,
    changes: Changes = [],  # noqa: B006 (typer copies it)
    as_json: Json = False,
) -> None:
    """Look up the current aggregates of a key in the store of a job, also while the job runs."""
    from sash.cli.job_file import read_job
    from sash.cli.job_pipeline import PreparedJob
    from sash.cli.terminal import write_table
    from sash.stores import RocksDBStore

    read = read_job(job, changes)
    prepared = PreparedJob(read)
    if "store" not in read.tables:
        read.wrong((), "the job has no [store]: without one, state is gone when the job ends")
    store = RocksDBStore(read.get("store", "path"), read_only=True)
    try:
        reader = prepared.made.query.reader(store)
        row = _row(keys or [], prepared)
        found = reader.lookup(row)
    finally:
        store.close()
    write_table(pa.Table.from_batches([found]), as_json)


def _row(keys: list[str], prepared: Any) -> dict[str, pa.Array]:
    """The key as columns of one value. Raises WrongUsage for other columns than those of `by`."""
    by = prepared.made.query.by
    given = dict(key.partition("=")[::2] for key in keys)
    if [*sorted(given)] != [*sorted(by)] or len(given) != len(keys):
        wanted = " ".join(f"{name}=…" for name in by) or "nothing: the query has no by"
        raise WrongUsage(f"lookup: give a value for each column of by: {wanted}; got {' '.join(keys) or 'none'}")
    row = {}
    for name in by:
        dtype = prepared.schema.field(name).type
        try:
            row[name] = pa.array([given[name]], pa.string()).cast(dtype)
        except pa.ArrowInvalid:
            raise WrongUsage(f"lookup: {name}={given[name]} is not of type {dtype}") from None
    return row
