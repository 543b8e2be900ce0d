"""Hypothesis profiles, the order in which parallel workers take tests, and the Spark session.

`quick` is the profile of `make test`, with the same examples each time; `thorough` is that of `make test-all`, and
`checked` that of its second part, where indices are checked. Mutants take `unshrunk`: that a test fails is enough.
"""

import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from _pytest.doctest import DoctestItem
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadScopeScheduling

from tests.interpreted import (  # noqa: F401
    SWITCHED_OFF,
    _interpreted_unless_compiled,
    column_aggregates,
    interpreted_kernels,
    interpreted_trees,
    kernels,
    switch_off,
)
from tests.shared.cross_section import left_out, part_of
from tests.shared.effort import PROFILE
from tests.shared.quick_java import QUICK_LOCAL

# No deadline and no health check on speed: a first call may compile, and the machine may be busy. No explanation of
# failures, which traces every line.
settings.register_profile(
    "quick",
    deadline=None,
    max_examples=3,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.register_profile("thorough", settings.get_profile("quick"), derandomize=False, max_examples=100)
settings.register_profile("checked", settings.get_profile("quick"), max_examples=20)
settings.register_profile("unshrunk", settings.get_profile("quick"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(PROFILE)


LONG = ("tests/stress/", "tests/fuzz/", "tests/test_docs.py", "tests/plan/test_typing.py")
"""Where a file is mostly one or two tests of ten seconds: late ones would leave the other workers idle at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Collect no combination that `-m 'not all_compiled'` would deselect: each takes 0.3 ms of each worker."""
    if "not all_compiled" in metafunc.config.option.markexpr:
        for mark in metafunc.definition.iter_markers("parametrize"):
            cases = mark.args[1] if isinstance(mark.args[-1], list) else []
            kept = [case for case in cases if not _is_all_compiled(case)]
            if kept and not isinstance(mark.kwargs.get("ids"), list | tuple):
                cases[:] = kept


def _is_all_compiled(case: Any) -> bool:
    return any(mark.name == "all_compiled" for mark in getattr(case, "marks", ()))


@pytest.hookimpl(specname="pytest_collection_modifyitems", tryfirst=True)
def pytest_leave_out_combinations(items: list[pytest.Item]) -> None:
    """Leave combinations that other tests cover to `make test-all`."""
    if PROFILE == "quick":
        for item in left_out(items):
            item.add_marker(pytest.mark.all_compiled)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--part=2/8` runs the second of eight parts: `make test-all PARTS=2/8`."""
    parser.addoption("--part", default="1/1", help="one of several parts of the tests, such as 2/8")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests that need Spark first, since they take longest; doctests are short, and fill up the end."""
    number, _, parts = config.getoption("part").partition("/")
    if parts != "1":
        chosen = set(part_of(items, int(number), int(parts)))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]

    def place(item: pytest.Item) -> tuple[bool, bool, bool]:
        is_spark = item.get_closest_marker("spark") is not None
        return not is_spark, isinstance(item, DoctestItem), not item.nodeid.startswith(LONG)

    items.sort(key=place)


gc.disable()  # while tests are collected: all that is made stays


def pytest_collection_finish() -> None:
    """Leave the tests themselves, and the modules, out of every search for garbage, and search less often."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter free all objects at its end: libraries report the rest as leaks."""
    gc.unfreeze()


WITHOUT_SESSION = {
    *(
        "test_cluster_session.py",
        "test_explain.py",
        "test_shipping.py",
        "test_shuffle_routing.py",
        "test_time_ranges.py",
    ),
    *(
        "test_fake_parity.py",
        "test_fake_random.py",
        "test_hot_keys.py",
        "test_live_state.py",
        "test_local_directory.py",
        "test_monitor_warnings.py",
    ),
    *("test_shard_memory.py", "test_shard_task.py", "test_watermark_codec.py"),
}
"""Files under tests/spark without a test that needs Spark: any worker takes them."""


SHARES = 8
"""The shares of a file that workers take in `make test-all`; the cache on disk has the kernels that they share."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Workers take a file at a time, whose tests compile the same kernels; one takes all tests that need Spark.

    They share a session, which takes seconds to start. (Groups by marks, `--dist=loadgroup`, need a pytest below 9.1.)
    """

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        is_spark = path.startswith("tests/") and "spark" in f"{path} {name.partition('[')[0]}"
        if is_spark and Path(path).name not in WITHOUT_SESSION:
            return "spark"
        # with every combination one file takes a quarter of an hour, in which the other workers would be idle
        return path if PROFILE == "quick" else f"{path} {crc32(nodeid.encode()) % SHARES}"


@pytest.hookimpl(optionalhook=True)  # tests/behaviour/mutants.py runs pytest without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Called for any `--dist` but "no"."""
    return ByFile(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker for each core, at most 8, and one for Spark, which mostly waits for its JVM."""
    return min(os.cpu_count() or 1, 8) + 1


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with two cores, two shuffle partitions and a warehouse of its own."""
    from sash.spark import session

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "sql.shuffle.partitions": 2,
        "sql.warehouse.dir": folder / "warehouse",
        "local.dir": folder / "local",
        "driver.memory": "1g",
        "connect.grpc.binding.port": 0,  # any that is free
        **QUICK_LOCAL,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SWITCHED_OFF.items():
            patch.setenv(name, value)  # the JVM hands it to all workers, those of Connect too
        if find_spec("pyspark.sql.streaming.stateful_processor"):  # 4.0 on: an older one needs an older Java
            patch.delenv("JAVA_HOME", raising=False)
            patch.setenv("PATH", str(_without_java(folder / "tools")))
        made = session(master="local[2]", **settings)
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def _without_java(tools: Path) -> Path:
    """A folder with all that is on the PATH but Java, so that the tests run on the bundled one."""
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*"):
            if tool.name not in ("java", "javac") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    return tools


@pytest.fixture(autouse=True)
def _interpreted_as_workers(request: pytest.FixtureRequest) -> None:
    """Compile nothing in this process where Spark's workers do not: doc pages choose themselves what they compile."""
    if SWITCHED_OFF and "spark" in request.fixturenames and not {"compiled_workers", "page"} & {*request.fixturenames}:
        switch_off(request.getfixturevalue("monkeypatch"))


@pytest.fixture
def compiled_workers(spark: Any) -> Iterator[None]:
    """Let Spark's workers compile. Most tests do not: the handling of rows and state does not depend on it."""
    environment = spark.sparkContext.environment
    environment.update(dict.fromkeys(SWITCHED_OFF, "0"))
    yield
    for name in SWITCHED_OFF:
        del environment[name]
