"""Kernels that come with a wheel: used where they fit, and never otherwise. Kernels are counted, not timed."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import sash
from sash.kernels.jit.cache import MANIFEST, baseline

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json
import pyarrow as pa
import sash
from sash.kernels.jit.compile import compiled_kernels
found = sash.rolling(pa.table({"x": [1.0, 3.0, 2.0, 0.5]}), 2, out=sash.max("x"))
assert found["out"].to_pylist() == [1.0, 3.0, 3.0, 2.0]
print(json.dumps(compiled_kernels))
"""
KERNEL = "sash.kernels.column.per_key.over_keys.greatest.one_key"
WITHOUT_CHECKS = {name: value for name, value in os.environ.items() if name != "NUMBA_BOUNDSCHECK"}
"""The environment of processes: packaged kernels check no indices, and are not used where that is asked for."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of sash, with the kernels of a maximum as `make wheel` compiles them."""
    path = tmp_path_factory.mktemp("built")
    shutil.copytree(Path(sash.__file__).parent, path / "sash", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["-m", "tools.package_kernels", str(path / "sash/kernels/compiled"), "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, *command, "--only", "frame: max of floats"],
        env={**WITHOUT_CHECKS, "PYTHONPATH": str(path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(built, tmp_path / "copy"))


def compiled(package: Path, cache: Path, before: str = "", **settings: str) -> list[str]:
    """The kernels that a process compiles which uses this package."""
    environment = {**WITHOUT_CHECKS, **settings, "PYTHONPATH": str(package), "SASH_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM],
        env=environment,
        cwd=cache.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout)
    return names


def entries(package: Path) -> list[Path]:
    return sorted((package / "sash/kernels/compiled").glob("*.code"))


def test_packaged_kernels_are_used_and_no_cache_is_made(built: Path, tmp_path: Path) -> None:
    assert compiled(built, tmp_path / "cache") == []
    assert not (tmp_path / "cache").exists()


def test_in_a_zip_file_too(built: Path, tmp_path: Path) -> None:
    archive = tmp_path / "sash.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in built.rglob("*.*"):
            file.write(path, path.relative_to(built))
    assert compiled(archive, tmp_path / "cache") == []


def test_other_sources_are_compiled(copy: Path, tmp_path: Path) -> None:
    with (copy / "sash/monoids/extremes.py").open("a") as file:
        file.write("# edited\n")
    assert KERNEL in compiled(copy, tmp_path / "cache")


FITTING = """
import json, sys
import llvmlite, numba, numpy
from pathlib import Path
from sash.kernels.jit import cache as module

def is_used():
    module.packaged.cache_clear()
    return module.packaged() is not None

found = {"as they are": is_used()}

def changed(place, name, value):
    before = getattr(place, name)
    setattr(place, name, value)
    found[f"{place.__name__} {name}"] = is_used()
    setattr(place, name, before)

for package in (numba, llvmlite, numpy):
    changed(package, "__version__", package.__version__ + ".1")
changed(numba.config, "BOUNDSCHECK", 1)
changed(numba.config, "CPU_NAME", "generic")
changed(numba.config, "CPU_FEATURES", "+avx2")
manifest = Path(sys.argv[1])
for name, content in json.loads(sys.argv[2]).items():
    before = manifest.read_text()
    manifest.write_text(content)
    found[name] = is_used()
    manifest.write_text(before)
found["at the end"] = is_used()
print(json.dumps(found))
"""
DAMAGED = {"empty": "", "a list": "[]", "other types": '{"key": 1, "features": [], "target": 5}'}


def test_only_what_fits_is_used(copy: Path) -> None:
    """Packaged kernels are not used for other versions, with checked indices, or for other CPU features."""
    manifest = copy / "sash/kernels/compiled" / MANIFEST
    content = json.loads(manifest.read_text())
    assert content["features"] == baseline()[1]
    content["features"].append("a feature that no CPU has")
    manifests = {**DAMAGED, "another feature": json.dumps(content)}
    done = subprocess.run(
        [sys.executable, "-c", FITTING, str(manifest), json.dumps(manifests)],
        env={**WITHOUT_CHECKS, "PYTHONPATH": str(copy)},
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [what for what, is_used in found.items() if is_used] == ["as they are", "at the end"]
    assert len(found) == 2 + 6 + len(manifests)


def test_damaged_files_count_as_missing(copy: Path, tmp_path: Path) -> None:
    assert len(entries(copy)) >= 3
    for number, path in enumerate(entries(copy)):
        data = bytearray(path.read_bytes())
        if number % 2:
            data[len(data) // 2] ^= 0xFF  # in the machine code: running it would be the end
        path.write_bytes(data if number % 2 else data[:-1])
    assert KERNEL in compiled(copy, tmp_path / "cache")


def test_no_path_of_the_builder_is_in_them(built: Path) -> None:
    for path in entries(built):
        content = path.read_bytes()
        for place in (built, ROOT, Path(sys.prefix), Path.home()):
            assert os.fsencode(place) not in content
