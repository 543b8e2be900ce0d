"""Valkey servers for the tests of one worker: a single server, and a cluster of one node with all slots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.stores.servers import free_port, serving, url_of

_PREFIXES = count()


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with serving(tmp_path_factory.mktemp("valkey"), repl_diskless_sync_delay=0) as server:
        yield server


@pytest.fixture(scope="session")
def server_url(valkey_server: Any) -> str:
    return url_of(valkey_server)


@pytest.fixture
def prefix() -> str:
    """The name of a store that no other test uses."""
    return f"store{next(_PREFIXES)}"


@pytest.fixture(scope="session")
def cluster_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from valkey.cluster import ValkeyCluster

    folder = tmp_path_factory.mktemp("cluster")
    with serving(folder, cluster_enabled="yes", cluster_port=free_port()) as server:
        with server.client() as node:
            node.execute_command("CLUSTER ADDSLOTSRANGE 0 16383")
            while node.execute_command("CLUSTER INFO")["cluster_state"] != "ok":  # after 2 s
                time.sleep(0.05)
        client = ValkeyCluster.from_url(url_of(server))
        yield client
        client.close()
