"""The first call of a new process with an empty cache, with a warm one, and with the kernels of a wheel.

`python -m benchmarks.cold_start` prints the table of docs/installation.md: CPU seconds, which other work on the machine
disturbs less than those of the clock, the best of some.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import sash
from benchmarks import page

FRAME = """
import json, time
import pandas as pd
before = time.process_time()
import sash
frame = pd.DataFrame(
    {"symbol": ["A", "B", "A", "A"], "t": [1, 2, 70, 3], "price": [101, 7, 99, 102], "by": ["ann", "bob", "cid", "dee"]}
)
frame["real"] = frame["price"] / 4
"""
CALLS = {
    "`max` and `arg_max` by key": 'high=sash.max("price"), who=sash.arg_max("price", "by")',
    "`mean` and `std` by key": 'mean=sash.mean("real"), std=sash.std("real")',
}
PROGRAM = """
sash.rolling(frame, sash.Time(60), by="symbol", on="t", {arguments})
from sash.kernels.jit.compile import compiled_kernels
print(json.dumps([time.process_time() - before, time.process_time(), len(compiled_kernels)]))
"""
ROUNDS = 3


def first_call(package: Path, cache: Path, arguments: str) -> tuple[float, float, int]:
    """Seconds of `import sash` and the call, of the whole process, and how many kernels it compiled."""
    environment = {**os.environ, "PYTHONPATH": str(package), "SASH_CACHE_DIR": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    program = FRAME + PROGRAM.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True, cwd=cache.parent
    )
    seconds, whole, kernels = json.loads(done.stdout)
    return seconds, whole, kernels


def main() -> None:
    """Run the benchmark, and print the table."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        plain, built = here / "plain", here / "built"
        for place in (plain, built):
            shutil.copytree(Path(sash.__file__).parent, place / "sash", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(
            [sys.executable, "-m", "tools.package_kernels", str(built / "sash/kernels/compiled")],
            env={**os.environ, "PYTHONPATH": str(built)},
            check=True,
            capture_output=True,
        )
        for call, arguments in CALLS.items():
            found: dict[str, list[tuple[float, float, int]]] = {}
            for i in range(ROUNDS):
                cache = here / f"{len(lines)} {i}"
                cache.mkdir(0o700)
                found.setdefault("an empty cache", []).append(first_call(plain, cache, arguments))
                found.setdefault("a warm cache", []).append(first_call(plain, cache, arguments))
                empty = here / f"{len(lines)} {i} empty"
                empty.mkdir(0o700)
                found.setdefault("a wheel with kernels", []).append(first_call(built, empty, arguments))
            for title, runs in found.items():
                seconds, whole, kernels = min(runs)
                lines.append([f"{call}, {title}", str(kernels), f"{seconds:.2f}", f"{whole:.2f}"])
    print(page.table(["", "kernels compiled", "import sash and first call", "whole process, with pandas"], lines))


if __name__ == "__main__":
    main()
