"""Hypothesis profiles, the order in which parallel workers take tests, and the Spark session.

`quick` is the profile of `make test`, with the same examples each time; `thorough` is that of `make test-all`.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.doctest import DoctestItem
from hypothesis import HealthCheck, settings

from tests.interpreted import column_aggregates, interpreted_lanes, interpreted_trees, kernels  # noqa: F401

# No deadline and no health check on speed: a first call may compile, and the machine may be busy.
settings.register_profile(
    "quick", deadline=None, max_examples=20, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), derandomize=False, max_examples=400)
settings.load_profile(os.environ.get("SASH_HYPOTHESIS", "quick"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests for `--dist=loadgroup`: a worker takes a file at a time, and one worker all tests that need Spark.

    Tests of a file compile the same kernels, and a Spark session takes seconds to start. The Spark group comes first,
    since it takes longest; doctests are short, and fill up the end.
    """
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, isinstance(item, DoctestItem)))
    for item in items:
        is_spark = item.get_closest_marker("spark") is not None
        item.add_marker(pytest.mark.xdist_group("spark" if is_spark else item.path.stem))


def pytest_xdist_auto_num_workers() -> int:
    """One worker for each core, at most 8, and one for Spark, which mostly waits for its JVM."""
    return min(os.cpu_count() or 1, 8) + 1


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with two cores, two shuffle partitions and a warehouse of its own."""
    from sash.spark import session

    folder = tmp_path_factory.mktemp("spark")
    made = session(
        master="local[2]",
        **{
            "sql.shuffle.partitions": 2,
            "sql.warehouse.dir": folder / "warehouse",
            "local.dir": folder / "local",
            "driver.memory": "1g",
        },
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
