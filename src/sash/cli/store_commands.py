"""The commands with state: inspect, lookup, migrate, backup, restore."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from sash.cli.commands import Json, app
from sash.cli.job_commands import Changes, JobPath
from sash.cli.main import WrongUsage
from sash.cli.terminal import escaped, write, write_json, write_rows, write_table

if TYPE_CHECKING:
    from sash.cli.job_file import Job
    from sash.stores import Store


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="A snapshot, a store of RocksDB, or a checkpoint of a Spark stream.")],
    top: Annotated[int, typer.Option(min=0, help="How many of the largest keys to show.")] = 3,
    job: Annotated[str, typer.Option(help="The job of the state, if it has user-defined aggregates.")] = "",
    as_json: Json = False,
) -> None:
    """Show the content of a state: its query, watermark, offset, keys, the largest keys, pages and bytes."""
    from sash.cli.inspect import state_summary, summary_lines
    from sash.cli.job_file import read_job
    from sash.cli.job_pipeline import PreparedJob

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


@app.command()
def migrate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The job as it ran until now.", show_default=False)],
    new_: Annotated[str, typer.Argument(metavar="NEW", help="The changed job, with a store and a sink of its own.")],
) -> None:
    """Continue a job with another query: write the state of OLD, converted to the query of NEW, to the store of NEW."""
    from sash.cli.job_pipeline import PreparedJob
    from sash.stores import RocksDBStore
    from sash.stores.store_backup import new_store

    before, after = _with_store(old), _with_store(new_)
    _require_successor(before, after)
    from_job, to_job = PreparedJob(before), PreparedJob(after)
    path = before.get("store", "path")
    if not Path(path, "CURRENT").exists():
        before.wrong(("store", "path"), f"there is no state at {path!r} yet: run this job first")
    with RocksDBStore(path) as store:
        from_job.publish_pending(store)
        with new_store(after.get("store", "path")) as target:
            to_job.made.query.migrate(store, from_query=from_job.made.query, to=target)
    target_path = after.get("store", "path")
    write(escaped(f"migrated {path} to {target_path}: `sash run {new_}` continues after the rows of {old}") + "\n")


def _with_store(path: str) -> Job:
    from sash.cli.job_file import read_job

    job = read_job(path)
    if job.engine == "spark":
        job.wrong(("engine",), "sash migrate is for engine local; on Spark use query.migrate(stream, from_query=…)")
    if job.get("store", "path") is None:
        job.wrong(("store",), "the job has no [store] with a path: without one, state is gone when the job ends")
    return job


def _require_successor(old: Job, new: Job) -> None:
    """Raises WrongUsage unless the new job has the source of the old one, and other places for state and results."""
    for key in ("kind", "path", "servers", "topic"):
        if old.get("source", key) != new.get("source", key):
            new.wrong(("source", key), f"{key} differs from that in {old.path}: the new job continues the same source")
    if old.get("query", "where") != new.get("query", "where"):
        new.wrong(("query", "where"), f"where differs from that in {old.path}: the state has the rows that it chose")
    for table, key in (("store", "path"), ("sink", "path"), ("sink", "topic")):
        given = new.get(table, key)
        if given is not None and _place(old, table, key) == _place(new, table, key):
            what = "old state is kept" if table == "store" else "results of another query need a place of their own"
            new.wrong((table, key), f"{key} = {given!r} is that of {old.path}: give another one, because {what}")


def _place(job: Job, table: str, key: str) -> tuple[Any, ...]:
    value = job.get(table, key)
    return (job.get(table, "servers"), os.path.realpath(value) if key == "path" and value is not None else value)


Prefix = Annotated[str, typer.Option(help="The name of a store on a server.")]
Where = Annotated[str, typer.Argument(metavar="STORE", help="A directory, a job, or valkey://host:port/0.")]


@app.command()
def backup(
    store: Where,
    to: Annotated[str, typer.Argument(metavar="BACKUP", help="A new directory.", show_default=False)],
    prefix: Prefix = "sash",
) -> None:
    """Copy the state in a store to a new directory, also while a job runs."""
    from sash.stores import backup as copy

    with closing(_store(store, prefix, read_only=True)) as opened:
        count = copy(opened, to)
    write(escaped(f"{count:,} pages copied to {to}") + "\n")


@app.command()
def restore(
    backup_: Annotated[str, typer.Argument(metavar="BACKUP", help="A directory of `sash backup`.")],
    to: Where,
    prefix: Prefix = "sash",
) -> None:
    """Copy a backup to a store that is empty or does not exist: a job with this store continues from there."""
    from sash.stores import RocksDBStore
    from sash.stores import restore as copy
    from sash.stores.store_backup import copy_pages, new_store

    if "://" in to:
        with closing(_store(to, prefix, read_only=False)) as opened:
            count = copy(backup_, opened)
    else:
        with RocksDBStore(backup_, read_only=True) as source, new_store(_directory(to)) as target:
            count = copy_pages(source, target)
    write(escaped(f"{count:,} pages restored to {to}") + "\n")


def _store(where: str, prefix: str, read_only: bool) -> Store:
    from sash.stores import RocksDBStore, ValkeyStore

    if "://" in where:
        return ValkeyStore(where, prefix=prefix, read_only=read_only)
    return RocksDBStore(_directory(where), read_only=read_only)


def _directory(where: str) -> str:
    """The directory of a store, or of the store of a job."""
    return str(_with_store(where).get("store", "path")) if Path(where).is_file() else where


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
