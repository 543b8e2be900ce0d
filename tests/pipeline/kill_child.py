"""A pipeline in a process that is killed: by itself at one of the moments between which something is saved, or by its
parent at any other.

Processes are forked from a server that has imported everything, so that each starts within milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.pipeline import FunctionSink, KafkaSink, KafkaSource, ParquetSink, files
from sash.pipeline import kafka as kafka_sink
from sash.stores import MemoryStore, RocksDBStore
from tests.interpreted import interpret_kernels
from tests.pipeline.pipe_cases import QUERY, SCHEMA

BATCH = 25
CONFIG = {"fetch.wait.max.ms": 10, "log_level": 0}


@dataclass(frozen=True)
class Job:
    """What a child runs: its kind, its directory, the brokers and topics, and at which moment it ends; 0: at none."""

    kind: str
    folder: Path
    servers: str = ""
    topics: tuple[str, str] = ("", "")
    moment: int = 0


class Moments:
    """Kills the process at a moment, by number."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, with a point to be killed at before and after it."""

        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            self()
            result = call(*arguments, **keywords)
            self()
            return result

        return wrapped


class MortalStore(RocksDBStore):
    """A store with a moment before and after each write."""

    moments: Moments

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.moments()
        super().put_many(pages)
        self.moments()

    def delete_many(self, ids: Iterable[str]) -> None:
        self.moments()
        super().delete_many(ids)


def receiver(log: Path, moments: Moments) -> Callable[[pa.RecordBatch, str], None]:
    """A function that appends what it gets to a file: an id and rows in each line."""

    def receive(batch: pa.RecordBatch, name: str) -> None:
        line = json.dumps([name, batch.to_pylist()], default=str) + "\n"
        with log.open("ab", buffering=0) as file:
            file.write(line.encode())
        moments()

    return receive


def child(job: Job) -> None:
    """Run the pipeline of a job to its end, unless killed."""
    moments = Moments(job.moment)
    store = MortalStore(job.folder / "store")
    store.moments = moments
    source: Any = files(job.folder / "in") if job.kind != "kafka" else kafka_source(job)
    sink: Any = {
        "parquet": lambda: ParquetSink(job.folder / "out"),
        "function": lambda: FunctionSink(receiver(job.folder / "log", moments)),
        "kafka": lambda: KafkaSink(job.servers, job.topics[1], config=CONFIG),
    }[job.kind]()
    sink.prepare, sink.publish = moments.around(sink.prepare), moments.around(sink.publish)
    if job.kind == "kafka":
        kafka_sink._Opened.delivered = moments.around(kafka_sink._Opened.delivered)
    sash.pipe(source, QUERY, sink, store=store, batch_size=BATCH)
    store.close()


def kafka_source(job: Job) -> KafkaSource:
    """The source of a job, with little waiting."""
    return KafkaSource(job.servers, job.topics[0], SCHEMA, config=CONFIG, linger=0.05)


def warm() -> None:
    """Load what a pipeline needs: children then find it in memory."""
    interpret_kernels(pytest.MonkeyPatch())
    row = {"k": "a", "t": 0, "x": 1}
    sash.pipe([pa.Table.from_pylist([row], SCHEMA)], QUERY, lambda *_: None, store=MemoryStore())


if "SASH_TEST_FORKSERVER" in os.environ:  # not where tests are collected: it would change all that follow
    warm()
