"""Lookups of many threads while an operator works: none raises, and each answer is that of one commit.

writer    ──┤ 0 ├──┤ 1 ├──┤ 2 ├──┤ 3 ├──        commits
threads     0 0    1 1 1  2      3 3            answers: of a commit, never of an earlier one than the last answer
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore, RocksDBStore
from tests.shared.effort import THOROUGH

THREADS, LOOKUPS = 8, 200 if THOROUGH else 20
KEYS = {"k": [*range(12), 99]}
STEPS = 400

QUERIES: dict[str, dict[str, Any]] = {
    "rows": {"windows": {"time": sash.Time(40), "count": sash.Count(7)}, "lateness": 8},
    "in order": {"windows": sash.Time(40), "lateness": 0},
    "slides": {"windows": sash.Time(60, every=10), "lateness": 8},
    "running": {"windows": {"session": sash.Session(9), "all": sash.Lifetime()}, "lateness": 8},
    "changes": {"windows": sash.Time(40), "emit": "changes", "forget": 60, "lateness": 8},
    "eager": {"windows": sash.Time(40), "emit": "eager", "lateness": 8},
}


def query(name: str) -> sash.Query:
    given = dict(QUERIES[name])
    seen = sash.count().over(sash.Lifetime()) if name != "slides" else sash.count()
    return sash.Query(given.pop("windows"), by="k", on="t", **given, high=sash.max("x"), total=sash.sum("x"), n=seen)


def batch(step: int) -> pa.RecordBatch:
    chance = np.random.default_rng(step)
    times = np.sort(3 * step + chance.integers(0, 3, 6))
    return pa.record_batch({"k": chance.integers(0, 10, 6), "t": times, "x": chance.integers(0, 1000, 6)})


def answers(name: str, steps: int) -> Iterator[str]:
    """The answer after each step."""
    op = query(name).operator(batch(0).schema)
    yield str(op.lookup(KEYS).to_pylist())
    for step in range(steps):
        op.process(batch(step))
        yield str(op.lookup(KEYS).to_pylist())


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Do work in threads of its own. Raises the first error."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]


def play(op: Any, lookup: Callable[[int], Any], least: int = 3) -> tuple[int, list[list[str]]]:
    """Process until all threads have made their lookups; returns the steps, and the answers of each thread."""
    found: list[list[str]] = [[] for _ in range(THREADS)]
    running, steps = [THREADS], [0]

    def work(number: int) -> None:
        if number == THREADS:
            while (running[0] and steps[0] < STEPS) or steps[0] < least:
                op.process(batch(steps[0]))
                steps[0] += 1
            return
        try:
            for _ in range(LOOKUPS):
                found[number].append(str(lookup(number).to_pylist()))
        finally:
            running[0] -= 1

    in_threads(work, THREADS + 1)
    return steps[0], found


def assert_each_of_one_commit(name: str, steps: int, found: list[list[str]], base: int = 0) -> None:
    at = {answer: step for step, answer in enumerate(answers(name, steps + base))}
    for mine in found:
        assert len(mine) == LOOKUPS
        places = [at.get(answer, -1) for answer in mine]
        assert -1 not in places, f"an answer is of no commit: {mine[places.index(-1)]}"
        assert places == sorted(places), "an answer is older than the one before it"


@pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")
@pytest.mark.parametrize("name", QUERIES)
def test_lookups_of_an_operator_while_it_processes(name: str) -> None:
    op = query(name).operator(batch(0).schema)
    steps, found = play(op, lambda _: op.lookup(KEYS))
    assert_each_of_one_commit(name, steps, found)
    assert op.metrics.rows_in == 6 * steps


@pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")
@pytest.mark.parametrize("name", ["rows", "running", "changes", "eager"])
@pytest.mark.parametrize("own", [False, True], ids=["one reader", "a reader each"])
def test_lookups_of_a_reader_while_its_operator_processes(name: str, own: bool) -> None:
    store = MemoryStore()
    op = query(name).operator(batch(0).schema, store=store)
    op.process(batch(0))
    readers = [query(name).reader(store) for _ in range(THREADS if own else 1)]
    steps, found = play(Shifted(op), lambda number: readers[number % len(readers)].lookup(KEYS))
    assert_each_of_one_commit(name, steps, found, base=1)


class Shifted:
    """An operator that has made one step already."""

    def __init__(self, op: Any) -> None:
        self.op, self.step = op, 0

    def process(self, _: Any) -> None:
        self.step += 1
        self.op.process(batch(self.step))


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["rows", "slides"])
@pytest.mark.parametrize("read_only", [False, True], ids=["the writer's store", "a store of its own"])
def test_lookups_in_a_directory_while_it_is_written(name: str, read_only: bool, tmp_path: Path) -> None:
    with RocksDBStore(tmp_path / "pages") as store:
        op = query(name).operator(batch(0).schema, store=store)
        op.process(batch(0))
        mine = RocksDBStore(tmp_path / "pages", read_only=True) if read_only else store
        readers = [query(name).reader(mine) for _ in range(2)]
        steps, found = play(Shifted(op), lambda number: readers[number % 2].lookup(KEYS))
        assert_each_of_one_commit(name, steps, found, base=1)
        if read_only:
            mine.close()


@pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")
def test_a_reader_does_not_wait_for_a_call_that_runs() -> None:
    entered, leave, armed = threading.Event(), threading.Event(), list[bool]()

    def waits(x: int) -> int:
        if armed:
            entered.set()
            assert leave.wait(30)
        return x

    slow = sash.monoid(identity=0, lift=waits, combine=max, lower=lambda state: state, name="slow")
    store, made = MemoryStore(), sash.Query(3, by="k", on="t", lateness=0, high=slow("x"))
    op = made.operator(batch(0).schema, store=store)
    op.process({"k": [1], "t": [1], "x": [5]})
    op.advance(2)
    reader, answers = made.reader(store), list[Any]()
    armed.append(True)
    writer = threading.Thread(target=lambda: op.process({"k": [1, 1], "t": [3, 4], "x": [7, 8]}))
    writer.start()
    assert entered.wait(30)
    try:
        in_threads(lambda _: answers.append(reader.lookup({"k": [1]})["high"].to_pylist()), 4)
        assert (reader.watermark, reader.metrics.rows_in) == (2, 1)
    finally:
        armed.clear()
        leave.set()
        writer.join()
    assert answers == [[5]] * 4
    assert reader.lookup({"k": [1]})["high"].to_pylist() == [8]


@pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")
def test_lookups_of_several_queries_while_they_process() -> None:
    """The answers for all queries are of one commit."""
    counts = {"n": sash.count()}
    queries = sash.Queries(
        one=sash.Query(sash.Lifetime(), by="k", on="t", lateness=8, **counts),
        two=sash.Query(sash.Lifetime(), by="k", **counts),
    )
    op = queries.operator(batch(0).schema)
    found: list[tuple[list[int], list[int]]] = []

    def lookup(_: int) -> pa.RecordBatch:
        both = op.lookup(KEYS)
        found.append((both["one"]["n"].to_pylist(), both["two"]["n"].to_pylist()))
        return both["one"]

    play(op, lookup)
    assert all(one == two for one, two in found)
    assert all(sum(one) % 6 == 0 for one, _ in found)
    assert len({str(one) for one in found}) > 1


@pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")
def test_requests_over_http_while_the_operator_processes() -> None:
    op = query("rows").operator(batch(0).schema)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(op.lookup({"k": [int(self.path[1:])]}).to_pylist()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        answered: list[int] = []

        def work(number: int) -> None:
            if number == THREADS:
                for step in range(30):
                    op.process(batch(step))
                return
            for key in range(25):
                address = f"http://127.0.0.1:{server.server_address[1]}/{key}"
                with urllib.request.urlopen(address, timeout=60) as response:
                    answered.append(json.loads(response.read())[0]["k"])

        try:
            in_threads(work, THREADS + 1)
        finally:
            server.shutdown()
            serving.join()
    assert len(answered) == 25 * THREADS
