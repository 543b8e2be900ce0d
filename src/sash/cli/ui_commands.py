"""The live page for commands: `sash ui`, and the page of `sash run --ui`."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sash.cli.commands import app

if TYPE_CHECKING:
    from sash.cli.page.live_page import LivePage

Host = Annotated[str, typer.Option(help="The address of the page; by default only this machine can reach it.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; by default a free one.")]

LOOPBACK = "127.0.0.1"


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


@contextmanager
def watched_run(name: str, on_page: bool, host: str = LOOPBACK, port: int = 0) -> Iterator[Callable[..., object]]:
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
