"""Tests that need a session of Spark are marked: `make test` runs them apart, for they share one JVM.

Those that only pretend need none, and run with all others.
"""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not item.path.name.startswith("test_pretend_"):
            item.add_marker(pytest.mark.spark)
