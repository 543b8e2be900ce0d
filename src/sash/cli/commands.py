"""The commands without a job file: info, structures, trace, warm, sql."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sash.cli.environment import as_text, cores, environment, version
from sash.cli.main import WrongUsage
from sash.cli.terminal import escaped, write, write_json, write_rows, write_table

ORDER = ("run", "new", "explain", "sql", "inspect", "lookup", "ui", "migrate", "backup", "restore", "bench", "warm")
"""The commands by use, as `sash --help` lists them; others follow."""


class CommandsByUse(TyperGroup):
    """Lists the commands in this order."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        names = super().list_commands(ctx)
        return [name for name in ORDER if name in names] + [name for name in names if name not in ORDER]


app = typer.Typer(
    name="sash",
    cls=CommandsByUse,
    help="Aggregates over sliding windows, exactly and incrementally.",
    epilog="Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="For programs: JSON on the standard output.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"sash {version('sash')}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def first(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere.")] = False,
) -> None:
    """Aggregates over sliding windows, exactly and incrementally."""
    if context.invoked_subcommand is None:
        sys.stdout.write(f"{context.get_help()}\n")


@app.command()
def info(as_json: Json = False) -> None:
    """Show installed packages, and the directory of compiled kernels."""
    found = environment()
    if as_json:
        write_json(found)
    else:
        write(as_text(found))


@app.command()
def structures(as_json: Json = False) -> None:
    """List the data structures, with their requirements and the worst-case number of calls of ⊕."""
    from sash.aggregators.catalogue import CATALOGUE

    if as_json:
        write_json([_record(one) for one in CATALOGUE.values()])
        return
    names = ["structure", "needs", "insert", "evict", "query", "space", "summary"]
    rows = []
    for one in CATALOGUE.values():
        worst = [str(cost) for cost in one.worst.values()]
        rows.append([one.name, ", ".join(one.needs), *worst, str(one.space), one.summary])
    write_rows(names, rows, "insert, evict and query: calls of ⊕ in the worst case, with n elements in the window")


def _record(one: Any) -> dict[str, Any]:
    costs = {kind: {name: str(cost) for name, cost in getattr(one, kind).items()} for kind in ("average", "worst")}
    return {
        "name": one.name,
        "needs": list(one.needs),
        **costs,
        "space": str(one.space),
        "in_order_of_time": one.timed,
        "paper": one.paper,
        "section": one.section,
        "summary": one.summary,
    }


@app.command()
def trace(
    structure: Annotated[str, typer.Argument(help="Such as DABA, or FiBA.", show_default=False)],
    values: Annotated[
        str, typer.Argument(help="Values, such as 3,1,4; FiBA also takes times: 2:3,1:4.", show_default=False)
    ],
    window: Annotated[int, typer.Option(min=1, help="Elements in the window.")] = 3,
    aggregate: Annotated[str, typer.Option(help="By default the first that fits: max, sum, median or mode.")] = "",
    svg: Annotated[str, typer.Option(help="Draw the steps into this file.")] = "",
    as_json: Json = False,
) -> None:
    """Show how a structure changes, step by step: its contents, the pointers of the paper, calls of ⊕."""
    from sash.cli.structure_trace import trace_lines, trace_steps, trace_svg, values_of

    steps = [*trace_steps(structure, aggregate, values_of(values), window)]
    if svg:
        title = f"{structure}, a window of {window} over {values}"
        Path(svg).write_text(trace_svg(title, steps), "utf-8")
    elif as_json:
        write_json([asdict(step) for step in steps])
    else:
        write("".join(f"{escaped(line)}\n" for line in trace_lines(steps)))


@app.command()
def warm(
    jobs: Annotated[int | None, typer.Option(min=1, help="Parallel processes; by default one for each core.")] = None,
    only: Annotated[str, typer.Option(help='Tasks whose name contains this, such as "frame" or "mean".')] = "",
    as_json: Json = False,
) -> None:
    """Compile the common kernels into the cache, ahead of their first use."""
    from sash import warm as kernels

    names = [name for name in kernels.tasks() if only in name]
    if not names:
        raise WrongUsage(f"--only: no task name contains {only!r}; the tasks are {', '.join(kernels.tasks())}")
    total = kernels.run(names, jobs or cores(), (lambda _text: None) if as_json else sys.stdout.write)
    if as_json:
        write_json({"tasks": names, "compiled": total})
    else:
        sys.stdout.write(f"{total} kernels compiled\n")


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="SELECT … with windows.", show_default=False)],
    tables: Annotated[list[str], typer.Argument(metavar="NAME=FILE", help="Parquet, CSV or JSON lines.")],
    out: Annotated[str, typer.Option(help="Write to this file: .parquet, .csv or .jsonl.")] = "",
    rows: Annotated[int, typer.Option(min=1, help="Rows that a terminal shows.")] = 40,
    as_json: Json = False,
) -> None:
    """Compute a SELECT statement with windows on files."""
    from sash.cli.sql import sql as compute
    from sash.cli.table_files import read_table, require_output, write_file

    if out:
        require_output(out)
    given: dict[str, str] = {}
    for table in tables:
        name, equals, path = table.partition("=")
        if not (equals and name.isidentifier() and path):
            raise WrongUsage(f"{table!r}: give tables as NAME=FILE, such as trades=trades.parquet")
        if name in given or name in ("lateness", "options"):
            raise WrongUsage(f"{table!r}: the name {name!r} is taken; use another one here and in FROM")
        given[name] = path
    found = compute(statement, **{name: read_table(path) for name, path in given.items()})
    if out:
        write_file(found, out)
    else:
        write_table(found, as_json, rows)
