"""The local directory of an executor, for the tests of live state."""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.spark.stream import local_pages


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local directory of an executor, and a worker that has done nothing yet."""
    root = tmp_path / "blockmgr-1"
    root.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(root))
    monkeypatch.setattr(local_pages, "_alive", {})
    monkeypatch.setattr(local_pages, "_cleaned", set())
    return root
