"""Sessions on clusters and under spark-submit: which settings and which Python they get. No JVM is started."""

import os
import sys
from typing import Any

import pytest

from sash.spark import session
from sash.spark.session import ARROW, SUBMITTED

MODULE = sys.modules["sash.spark.session"]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of the session that would be built."""
    found: dict[str, str] = {}
    monkeypatch.setattr(MODULE, "_built", found.update)
    monkeypatch.setattr(MODULE, "java_home", lambda: None)
    monkeypatch.setattr(MODULE.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(MODULE.SparkSession, "_instantiatedSession", None)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE", SUBMITTED):
        monkeypatch.setenv(name, "")  # so that it is put back, too
        monkeypatch.delenv(name)
    return found


def test_a_local_session_has_settings_of_one_machine(built: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    session()
    assert built["spark.master"] == "local[*]"
    assert built["spark.driver.host"] == "localhost"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_one_on_a_cluster_leaves_them_to_the_cluster(built: dict[str, str]) -> None:
    session(master="spark://master:7077")
    assert built["spark.master"] == "spark://master:7077"
    left = ("spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions", "spark.ui.enabled")
    assert not built.keys() & set(left)
    assert built["spark.executor.defaultJavaOptions"] == ARROW
    assert built["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("variable", "setting", "python"),
    [
        (None, None, sys.executable),
        ("./environment/bin/python", None, "./environment/bin/python"),
        ("./environment/bin/python", "/opt/python", "/opt/python"),
    ],
)
def test_the_python_of_executors(
    built: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str | None,
    setting: str | None,
    python: str,
) -> None:
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    session(master="yarn", **({} if setting is None else {"pyspark.python": setting}))
    assert os.environ["PYSPARK_PYTHON"] == python
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert built["spark.master"] == "yarn"


class Conf(dict[str, str]):
    """The settings of a session, and those of its context."""

    def contains(self, name: str) -> bool:
        return name in self

    def set(self, name: str, value: str) -> None:
        self[name] = value


def test_what_spark_submit_was_given_holds(monkeypatch: pytest.MonkeyPatch, built: dict[str, str]) -> None:
    given = Conf({"spark.master": "yarn", "spark.sql.session.timeZone": "Asia/Tokyo"})
    conf = Conf(given)

    class Submitted:
        """A session whose JVM runs already."""

        class sparkContext:  # noqa: N801
            @staticmethod
            def getConf() -> Conf:  # noqa: N802
                return given

    Submitted.conf = conf  # type: ignore[attr-defined]

    def build(wanted: dict[str, str]) -> Any:
        built.update(wanted)
        return Submitted()

    monkeypatch.setattr(MODULE, "_built", build)
    monkeypatch.setenv(SUBMITTED, "12345")
    session(**{"app.name": "mine"})
    assert built == {"spark.app.name": "mine"}, "no master, and nothing else that would go before spark-submit's"
    assert conf["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert conf["spark.sql.execution.arrow.maxRecordsPerBatch"] == "4096"
    assert "PYSPARK_PYTHON" not in os.environ
