"""A pytest plugin that measures tests: CPU seconds, the kernels that they compile, and wall time.

Wall time depends on neighbours; it is there for tests that wait for Spark, whose JVM is not counted otherwise.

    SASH_CACHE_DIR=$(mktemp -d) SASH_COSTS=/tmp/costs .venv/bin/python -m pytest -p tests.shared.costs tests/frames
    .venv/bin/python -m tests.shared.costs /tmp/costs

The first line writes a file for each worker into a folder; the second prints what took most, by file and by kernel.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sash.kernels.jit import compile as module

_compiled: list[tuple[str, float]] = []
_compile_now = module._compiled_now


def _timed(kernel: Any, signature: Any) -> Any:
    start = time.thread_time()
    try:
        return _compile_now(kernel, signature)
    finally:
        _compiled.append((f"{kernel.__module__}.{kernel.__qualname__}", time.thread_time() - start))


def pytest_configure() -> None:
    """Measure what is compiled from here on."""
    module._compiled_now = _timed
    Path(os.environ["SASH_COSTS"]).mkdir(parents=True, exist_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Write a line for each test: its own CPU seconds, those of processes that it waited for, and its kernels."""
    _compiled.clear()
    before, start = os.times(), time.monotonic()
    try:
        return (yield)
    finally:
        after = os.times()
        own = after.user + after.system - before.user - before.system
        children = after.children_user + after.children_system - before.children_user - before.children_system
        line = {"test": item.nodeid, "own": own, "children": children, "kernels": _compiled}
        line["wall"] = time.monotonic() - start
        with (Path(os.environ["SASH_COSTS"]) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def main(folder: Path) -> None:
    """Print the files, the tests and the kernels that took most."""
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    files, tests, kernels, waiting = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for line in lines:
        waiting[line["test"].partition("[")[0]] += line["wall"] - line["own"] - line["children"]
        cost = line["own"] + line["children"]
        files[line["test"].partition("::")[0]] += cost
        tests[line["test"].partition("[")[0]] += cost
        for name, seconds in line["kernels"]:
            kernels[name] += seconds
    count = sum(len(line["kernels"]) for line in lines)
    print(f"{len(lines)} tests, {files.total():.0f} s of CPU; {count} kernels, {kernels.total():.0f} s")  # noqa: T201
    for title, costs in (("files", files), ("tests", tests), ("kernels", kernels), ("waiting", waiting)):
        print(f"\n{title}")  # noqa: T201
        for name, seconds in costs.most_common(25):
            print(f"{seconds:8.1f} s  {name}")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
