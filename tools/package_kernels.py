"""Compile the common kernels for any CPU of this architecture, for a wheel: `python -m tools.package_kernels FOLDER`.

`make wheel` runs it. The kernels are those of `python -m sash.warm`; `sash.kernels.jit.cache` defines the CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from sash import warm
from sash.kernels.jit.cache import baseline, write_packaged


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser("python -m tools.package_kernels", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that compile at once")
    parser.add_argument("--only", default="", help="tasks of sash.warm whose name contains this")
    given = parser.parse_args()
    cpu, features = baseline()
    if os.environ.get("NUMBA_CPU_NAME") != cpu:
        _again(cpu)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SASH_CACHE_DIR"] = cache
        warm.run([name for name in warm.tasks() if given.only in name], given.jobs, sys.stdout.write)
        _write(given.folder, features)


def _again(cpu: str) -> None:
    """Run this command again with settings of Numba for this CPU, which it reads when it is imported.

    Intel's vector library may be missing where the kernels run, and other settings of this user are dropped.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    chosen = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1"}
    os.execve(sys.executable, [sys.executable, "-m", "tools.package_kernels", *sys.argv[1:]], kept | chosen)


def _write(folder: Path, features: list[str]) -> None:
    from numba.core.registry import cpu_target

    from sash.kernels.jit.cache import directory

    cache = directory()
    assert cache is not None
    entries = {}
    for path in cache.path.glob("*.code"):
        content = cache.load(path.name)
        assert content is not None
        assert os.fsencode(Path.cwd()) not in content, f"{path.name} has a path of this machine"
        entries[path.name] = bytes(content)
    write_packaged(folder, cpu_target.target_context.codegen().magic_tuple(), features, entries)
    size = sum(map(len, entries.values()))
    sys.stdout.write(f"{len(entries)} kernels, {size / 1e6:.1f} MB, in {folder}\n")


if __name__ == "__main__":
    main()
