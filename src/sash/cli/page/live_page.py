"""LivePage: a local web page with metrics and the newest results of running queries."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sash.cli.page.page_server import PageAccess, PageServer, is_loopback

if TYPE_CHECKING:
    from sash.cli.page.query_board import Board, QueryBoard
    from sash.plan.query import Query


class LivePage:
    """A web page, served by this process, that shows running queries; `sash.live_page` makes one.

    `url` is its address, with the token that every request needs. Use it in a `with`, or `close` it at the end.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, board: Board | None = None) -> None:
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 2**16:
            raise ValueError(f"port= must be a number from 0 (any free port) to 65535; got {port!r}")
        if not isinstance(host, str) or not host:
            raise TypeError(f"host= takes a name or an address, such as '127.0.0.1'; got {host!r}")
        self._own: QueryBoard | None = None
        if board is None:  # imported here, because it loads the engine, which `sash ui` does not need
            from sash.cli.page.query_board import QueryBoard

            board = self._own = QueryBoard()
        self._board = board
        self._access = PageAccess(host)
        try:
            self._server = PageServer(self._board, (host, port), self._access).start()
        except OSError as error:
            raise OSError(f"the page cannot be served on {host}:{port}: {error.strerror or error}") from error
        self.host, self.port = host, self._server.server_port
        self._closed = False

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        host = self.host
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        elif ":" in host:
            host = f"[{host}]"
        return f"http://{host}:{self.port}/?{urlencode({'token': self._access.token})}"

    @property
    def is_local(self) -> bool:
        """Can only this machine reach the page?"""
        return is_loopback(self.host)

    def watch(self, running: Any, name: str | None = None, *, query: Query | None = None) -> None:
        """Show a running query.

        running: an operator, also that of `sash.Queries`; a pipeline, as `sash.pipe(…, watch=page.watch)` gives it; a
            streaming query of Spark, or its `sash.spark.monitor`.
        name: its name on the page; by default made from what it is.
        query: for Spark, the `sash.Query` whose plan the page shows.

        Raises TypeError for anything else, ValueError for a name that is taken and for an operator that is watched.
        """
        self._watching().watch(running, name, query)

    def unwatch(self, name: str) -> None:
        """Remove a query from the page. Raises KeyError if there is none of this name."""
        self._watching().unwatch(name)

    def figures(self) -> list[dict[str, Any]]:
        """The figures of all queries, as the page shows them."""
        return self._board.queries()

    def close(self) -> None:
        """Send the last figures to all open pages, and stop serving."""
        if self._closed:
            return
        self._closed = True
        self._server.close()
        if self._own is not None:
            self._own.close()

    def _watching(self) -> QueryBoard:
        if self._own is None:
            raise TypeError("this page shows a given board: call watch() of that board")
        return self._own

    def __enter__(self) -> LivePage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LivePage on {self.host}:{self.port}>"


def live_page(*running: Any, host: str = "127.0.0.1", port: int = 0) -> LivePage:
    """Serve a web page that shows running queries: rows, watermark, late rows, state, latency, plan and results.

    running: operators, streaming queries of Spark, monitors; `watch` adds more, and pipelines.
    host: the address to serve on; by default only this machine can reach it.
    port: the port; 0 takes a free one.

    Every request needs the token in `url`, which is random. The page has no effect on results; a call of an operator
    takes some microseconds more.

    >>> import sash
    >>> op = sash.Query(2, by="k", high=sash.max("x")).operator()
    >>> with sash.live_page(op) as page:
    ...     found = op.process({"k": ["a", "a", "b"], "x": [3, 1, 2]})
    ...     page.url.split(":")[:2], [(one["name"], one["rows_in"]) for one in page.figures()]
    (['http', '//127.0.0.1'], [('operator', 3)])

    Raises OSError if the port is taken.
    """
    page = LivePage(host, port)
    try:
        for one in running:
            page.watch(one)
    except BaseException:
        page.close()
        raise
    return page
