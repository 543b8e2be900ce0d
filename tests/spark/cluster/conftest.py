"""The cluster that these tests share; it needs /proc, and takes some 2 GB of memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster.standalone import StandaloneCluster


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here) and "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers of one core each, on loopback."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the tests find Spark's executors in /proc, which only Linux has")
    running = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()
