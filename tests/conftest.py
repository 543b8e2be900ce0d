"""Hypothesis profiles: `quick` for `make test`, the same examples each time; `thorough` for `make test-all`.

And the one session of Spark, for a JVM takes seconds to start.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No deadline and no health check on speed: a first call may compile, and the machine may be busy.
settings.register_profile(
    "quick", deadline=None, max_examples=20, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), derandomize=False, max_examples=400)
settings.load_profile(os.environ.get("SASH_HYPOTHESIS", "quick"))


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
