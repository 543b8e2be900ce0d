"""`import sash` is light: heavy and optional packages load on first use. Modules are counted; nothing is timed."""

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sash

HEAVY = (
    "datasketches",
    "llvmlite",
    "numba",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "rocksdict",
    "sqlglot",
    "valkey",
)


def packages_loaded_by(statement: str) -> set[str]:
    """The top-level packages, beyond the standard library, that a fresh interpreter loads for `statement`.

    What the interpreter loads at its start (a `.pth` file of the environment, say) does not count.
    """
    program = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1])) - sys.stdlib_module_names


@pytest.mark.parametrize(
    "module", ["sash", "sash.monoids", "sash.aggregators", "sash.windows", "sash.plan", "sash.stores"]
)
def test_import_loads_nothing_heavy(module: str) -> None:
    assert packages_loaded_by(f"import {module}").isdisjoint(HEAVY)


def test_the_whole_import_is_sash_and_numpy_at_most() -> None:
    assert packages_loaded_by("import sash") <= {"sash", "numpy"}


def test_a_query_is_made_without_arrow() -> None:
    made = packages_loaded_by("import sash; repr(sash.Query('1h', by='k', on='ts', high=sash.max('x')))")
    assert made <= {"sash", "numpy"}


def test_expressions_load_sqlglot_and_names_of_conditions_do_not() -> None:
    assert packages_loaded_by("import sash; sash.sum('x', where='ok')") <= {"sash", "numpy"}
    made = packages_loaded_by("import sash; sash.sum(sash.expr('x + 1'))")
    assert "sqlglot" in made
    assert made.isdisjoint({*HEAVY} - {"sqlglot"})


def test_frames_load_neither_pandas_nor_polars() -> None:
    assert packages_loaded_by("import sash.frames").isdisjoint({"pandas", "polars"})


def test_pipelines_load_kafka_only_when_asked() -> None:
    assert packages_loaded_by("import sash; sash.pipe").isdisjoint({"confluent_kafka", "pandas", "polars", "pyspark"})
    assert "confluent_kafka" in packages_loaded_by("from sash.pipeline import KafkaSource")


def test_spark_says_what_it_needs() -> None:
    """As the other extras do, and only of pyspark itself."""
    blocked = "import sys; sys.modules['pyspark'] = None; import sash.spark"
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: sash.spark needs the package pyspark: pip install 'sash[spark]'"


def test_commands_that_compute_nothing_load_no_compiler() -> None:
    loaded = packages_loaded_by("from sash.cli.main import main; main(['structures'])")
    assert loaded.isdisjoint({"numba", "llvmlite", "pandas", "polars", "pyspark"})


def test_the_probe_sees_what_is_loaded() -> None:
    assert "pyarrow" in packages_loaded_by("import pyarrow")


def test_the_version_is_stated_alike() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    assert sash.__version__ == pyproject["project"]["version"]


def test_the_sketches_are_tested_where_they_can_be_installed() -> None:
    assert importlib.util.find_spec("datasketches") or sys.version_info >= (3, 14)
