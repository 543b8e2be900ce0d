"""The writer of results: it is Spark's, finds the checkpoint wherever it is named, and checks it before it starts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.spark.stream import checkpoint as checkpoint_check
from sash.spark.stream.checkpoint import CHECK, StateMismatch, require_state_of
from sash.spark.stream.map_state_store import unpacked
from sash.spark.stream.plan_stream import DEFAULT, spec_of, with_checks
from tests.spark.stream.fake_spark import FakeStream

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("ms")), ("x", pa.float64())])


def query(size: str) -> sash.Query:
    return sash.Query(size, by="k", on="ts", lateness="1s", high=sash.max("x"))


class Settings(dict[str, str]):
    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, default)


class FakeSession:
    def __init__(self, **settings: str) -> None:
        self.conf = Settings(settings)


class FakeWriter:
    """As Spark's: each method but the last returns the writer."""

    def __init__(self) -> None:
        self.called: list[Any] = []

    def option(self, key: str, value: Any) -> Any:
        self.called.append((key, value))
        return self

    def options(self, **options: Any) -> Any:
        self.called.append(options)
        return self

    def queryName(self, queryName: str) -> Any:  # noqa: N802
        self.called.append(queryName)
        return self

    def start(self, *arguments: Any, **options: Any) -> Any:
        return ("started", arguments, options, self.called)

    def toTable(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        return ("table", arguments, options, self.called)


class FakeFrame:
    def __init__(self, **settings: str) -> None:
        self.sparkSession = FakeSession(**settings)

    @property
    def writeStream(self) -> FakeWriter:  # noqa: N802
        return FakeWriter()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The checkpoints that were checked."""
    found: list[str] = []
    monkeypatch.setattr(checkpoint_check, "require_state_of", lambda _spec, _session, where: found.append(where))
    return found


def frame(**settings: str) -> Any:
    return with_checks(FakeFrame(**settings), spec_of(query("1h"), SCHEMA, 2, None, False))


def test_the_checkpoint_is_found_wherever_it_is_named(asked: list[str]) -> None:
    one = frame()
    assert isinstance(one, FakeFrame)
    assert isinstance(one.writeStream, FakeWriter)
    found = one.writeStream.option("checkpointLocation", "/a").start("/out", format="parquet")
    assert found == ("started", ("/out",), {"format": "parquet"}, [("checkpointLocation", "/a")])
    one.writeStream.options(CHECKPOINTLOCATION="/b", path="/out").start()
    one.writeStream.start(checkpointLocation="/c")
    one.writeStream.option("checkpointLocation", "/d").toTable("trades")
    one.writeStream.option("checkpointLocation", "/old").start(checkpointLocation="/e")
    assert asked == ["/a", "/b", "/c", "/d", "/e"]


def test_the_directory_of_checkpoints_of_a_session(asked: list[str]) -> None:
    one = frame(**{DEFAULT: "/all"})
    one.writeStream.queryName("highs").start()
    one.writeStream.start(queryName="lows")
    one.writeStream.start()  # Spark takes a temporary directory
    frame().writeStream.queryName("highs").start()
    assert asked == ["/all/highs", "/all/lows"]


def shards_of(size: str, monkeypatch: pytest.MonkeyPatch, skip: int = 0) -> None:
    """A checkpoint with state of a query with a window of this size."""
    stream = FakeStream(query(size), SCHEMA, shards=2)
    columns = [pa.array(list("ABCD")), pa.array([1, 2, 3, 4]).cast(pa.timestamp("ms")), pa.array([1.0] * 4)]
    stream.batch([pa.RecordBatch.from_arrays(columns, schema=SCHEMA)])
    pages = [
        {key[0]: unpacked(bytes(value[0]), key[0]) for key, value in one.pages.items()} for one in stream.state.values()
    ]
    assert len(pages) == 2
    for one in pages[:skip]:
        del one["root"]  # a shard that had malformed rows only

    def stored(_session: Any, _checkpoint: str, names: list[str]) -> list[dict[str, bytes]]:
        found = [{name: one[name] for name in names if name in one} for one in pages]
        return found[:1] if len(names) == 1 else sorted(found, key=len, reverse=True)

    monkeypatch.setattr(checkpoint_check, "_stored", stored)


@pytest.mark.parametrize("skip", [0, 1])
def test_state_of_another_query_is_described_in_words(monkeypatch: pytest.MonkeyPatch, skip: int) -> None:
    shards_of("1h", monkeypatch, skip)
    require_state_of(spec_of(query("1h"), SCHEMA, 2, None, False), FakeSession(), "/a")
    other = spec_of(query("2h"), SCHEMA, 2, None, False)
    with pytest.raises(StateMismatch, match=r"state of another query: window 1h → 2h\. Go back to that query"):
        require_state_of(other, FakeSession(), "/a")
    with pytest.raises(StateMismatch, match="state of 2 shards, and the query now has 3"):
        require_state_of(spec_of(query("1h"), SCHEMA, 3, None, False), FakeSession(), "/a")
    require_state_of(other, FakeSession(**{CHECK: "false"}), "/a")


def test_frames_that_are_no_streams_are_refused() -> None:
    with pytest.raises(TypeError, match=r"check_checkpoint.. takes the stream of the query"):
        sash.spark.check_checkpoint(query("1h"), FakeFrame(), "/a")
