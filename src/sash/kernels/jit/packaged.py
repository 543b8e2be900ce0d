"""Kernels in a wheel, compiled ahead of time for any CPU of an architecture level.

    sash/kernels/compiled/       exists only in wheels built by `make wheel`
    ├── manifest.json            the hash of the sources, and the CPU features that the machine code needs
    └── <hash>.code              a kernel for one signature, after a checksum

They are used only if they were compiled from exactly the same sources and versions, and if this CPU has all features;
otherwise kernels are compiled as usual. A damaged file counts as missing. The checksum detects accidents only: an
attacker who can change a file of the package can change its Python modules as well.

The level is x86-64-v3 (AVX2 and FMA: Intel since 2013, AMD since 2015). Plain x86-64 has no fused multiply-add, and
half the vector width. docs/installation.md has measurements.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import json
import platform
import sysconfig
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np

from sash.kernels.jit.source_hash import hash_sources

MANIFEST = "manifest.json"
CHECKSUM_SIZE = 16

_X86_V3 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"


def baseline() -> tuple[str, list[str]]:
    """The CPU that packaged kernels are compiled for, by LLVM's name, and the features beyond the architecture's own.

    The first version of 64-bit ARM has vectors of two floats and fused multiply-add: its generic CPU suffices.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        return "x86-64-v3", _X86_V3.split()
    return "generic", []


def build_key() -> str:
    """A hash of what machine code depends on, except the CPU: sources, versions, ABI, and whether indices are checked.

    Releases of one minor version of Python have the same ABI.
    """
    versions = numba.__version__, llvmlite.__version__, np.__version__, sysconfig.get_config_var("SOABI")
    return hash_sources(versions, llvm.get_process_triple(), bool(numba.config.BOUNDSCHECK))


class PackagedEntries:
    """The kernels in a directory of the package. `target` is what they were compiled for: triple, CPU, features."""

    def __init__(self, directory: Traversable, target: tuple[str, ...]) -> None:
        self.path, self.target = directory, target

    def load(self, name: str) -> memoryview | None:
        """The content of an entry; None if it is damaged. Raises OSError if there is none."""
        data = memoryview((self.path / name).read_bytes())
        content = data[CHECKSUM_SIZE:]
        return content if data[:CHECKSUM_SIZE] == _checksum(content) else None


@functools.cache
def packaged() -> PackagedEntries | None:
    """The kernels of this package; None if there are none, or if this process cannot use them."""
    directory = importlib.resources.files("sash") / "kernels" / "compiled"
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        fits = _fits(manifest)
        target = tuple(map(str, manifest["target"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return PackagedEntries(directory, target) if fits else None


def _fits(manifest: Any) -> bool:
    """May kernels with this manifest run here? Not if the user has chosen Numba's target CPU."""
    if numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None:
        return False
    available = llvm.get_host_cpu_features()
    return all(available.get(feature) for feature in manifest["features"]) and manifest["key"] == build_key()


def write_packaged(folder: Path, target: tuple[str, ...], features: list[str], entries: dict[str, bytes]) -> None:
    """Write kernels, by the names of their files, and the manifest with their requirements."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in entries.items():
        (folder / name).write_bytes(_checksum(content) + content)
    manifest = {"key": build_key(), "target": target, "features": features}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_SIZE).digest()
