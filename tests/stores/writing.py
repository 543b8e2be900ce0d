"""A process that writes to a store: `python -m tests.stores.writing <place> <options as JSON> [small]`.

It opens the store, prints "open" or the error, and then follows the lines of its input:

    put <n>    write pages that all have the number n
    run <n>    write repeatedly, each time the next number, and print each number that is confirmed

A place is a URL or a directory. With `small`, RocksDB gets write buffers of 64 KiB: it flushes and
compacts all the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHARED = [f"p{n}" for n in range(8)]
"""Every write replaces these pages..."""
SIZE = 700


def page(number: int) -> bytes:
    return b"%08d" % number * (SIZE // 8)


def number_of(pages: dict[str, bytes]) -> int:
    """The number of the write that a store shows. Fails if it shows pieces of several."""
    if not pages:
        return 0
    numbers = {int(data[:8]) for data in pages.values()}
    assert len(numbers) == 1, f"pages of several writes: {numbers}"
    (number,) = numbers
    assert pages == batch(number), sorted(pages)
    return number


def batch(number: int) -> dict[str, bytes]:
    """The pages of a write, with one of its own that replaces that of the previous write."""
    return {name: page(number) for name in [*SHARED, "turn"]}


def opened(place: str, options: dict[str, Any]) -> Any:
    from sash.stores import RocksDBStore, ValkeyStore

    return (ValkeyStore if "://" in place else RocksDBStore)(place, **options)


def main(place: str, options: str, small: str = "") -> None:
    from sash.stores import StoreError

    if small:
        from sash.stores import rocksdb_store

        rocksdb_store.WRITE_BUFFER = 1 << 16
    try:
        store = opened(place, json.loads(options))
    except StoreError as error:
        print(type(error).__name__, error, flush=True)  # noqa: T201
        return
    print("open", flush=True)  # noqa: T201
    for line in sys.stdin:
        command, number = line.split()
        try:
            store.put_many(batch(int(number)))
            print("put", number, flush=True)  # noqa: T201
        except StoreError as error:
            print(type(error).__name__, error, flush=True)  # noqa: T201
        while command == "run":
            number = str(int(number) + 1)
            store.put_many(batch(int(number)))
            os.write(1, b"put %s\n" % number.encode())


class WritingProcess:
    """The process, as its parent controls it."""

    def __init__(self, place: str | Path, *, small: bool = False, **options: Any) -> None:
        command = [sys.executable, "-m", "tests.stores.writing", str(place), json.dumps(options), *["small"] * small]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self.first = self.line()

    def __enter__(self) -> WritingProcess:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()

    def line(self) -> str:
        assert self.process.stdout
        found = self.process.stdout.readline().rstrip("\n")
        if not found and self.process.poll() is not None:
            raise AssertionError(self.rest()[1])
        return found

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def put(self, number: int) -> str:
        """The answer to a write."""
        self.tell(f"put {number}")
        return self.line()

    def rest(self) -> tuple[str, str]:
        """The rest of its output, after it has ended."""
        self.process.wait(60)
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.process.stdin.close()
        with self.process.stdout as out, self.process.stderr as err:
            return out.read(), err.read()  # not `communicate`, which leaves out what `readline` has buffered

    def kill(self) -> list[int]:
        """Kill -9; the numbers that were confirmed and not yet read."""
        self.process.kill()
        out, _ = self.rest() if self.process.stdin and not self.process.stdin.closed else ("", "")
        return [int(line.split()[1]) for line in out.splitlines() if line.startswith("put ")]


if __name__ == "__main__":
    main(*sys.argv[1:])
