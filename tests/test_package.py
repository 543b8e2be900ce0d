"""The wheel and the source distribution: what is in them, and that they install in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
ASSETS = {f"sash/cli/page/assets/{name}" for name in ("chart.js", "icon.svg", "page.css", "page.html", "page.js")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def test_the_wheel_has_the_package_and_nothing_else(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        metadata = Parser().parsestr(wheel.read(next(n for n in wheel.namelist() if n.endswith("/METADATA"))).decode())
    assert names == SOURCES | ASSETS | {"sash/py.typed"}
    assert path.stat().st_size < 2_000_000
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    extras = {"frames", "spark", "stores", "sketches", "kafka", "plot", "cli", "docs", "bench", "dev", "all"}
    assert {*metadata.get_all("Provides-Extra")} == extras
    assert len(metadata.get_all("Classifier")) > 10


def test_the_source_distribution_has_what_is_needed_to_build_and_test(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tools/venv.sh"} <= names
    assert {f"src/{name}" for name in SOURCES | ASSETS} <= names
    assert not [name for name in names if name.split("/")[0] in {".ci", ".venv", "build", "dist", ".git"}]
    assert path.stat().st_size < 5_000_000


@pytest.mark.all_compiled
def test_both_install_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    code = "import sash; print(sash.rolling({'x': __import__('numpy').arange(5.)}, 2, high=sash.max('x'))['high'])"
    for path in built.iterdir():
        place = tmp_path / path.suffix
        venv.create(place, with_pip=True)
        python = str(place / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", f"sash @ {path.as_uri()}"], check=True)
        done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == "[0. 1. 2. 3. 4.]\n"
        subprocess.run([python, "-m", "sash", "--version"], cwd=tmp_path, check=True)
