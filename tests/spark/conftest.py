"""Marks tests that need a Spark session, and the frame that several of them share."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OWN_SESSIONS = ("test_parity.py", "test_session.py")
"""Modules with tests that start sessions of their own."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if not str(item.path).startswith(here):
            continue
        if "spark" in getattr(item, "fixturenames", ()) or item.path.name in OWN_SESSIONS:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="module")
def frame(spark: Any) -> Iterator[Any]:
    """The rows of `cases`, cut into many small batches on their way through a worker."""
    from sash.spark.spark_types import spark_schema
    from tests.spark.cases import SCHEMA, rows

    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(setting)
    spark.conf.set(setting, 16)
    yield spark.createDataFrame(rows(), spark_schema(SCHEMA)).repartition(3).cache()
    spark.conf.set(setting, before)
