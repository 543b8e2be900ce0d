"""What `make test` runs of tests with many parameters: each value of each parameter, not each combination.

In files where every case takes long, the tests take turns as well: each runs a quarter of its cases, another one
than its neighbours. `make test-all` runs all of them, in parts.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

IN_TURN = (
    "tests/aggregators/test_amta.py",
    "tests/aggregators/test_bint.py",
    "tests/aggregators/test_bulk_evict.py",
    "tests/aggregators/test_daba_lite.py",
    "tests/aggregators/test_log_mta.py",
    "tests/aggregators/test_machines.py",
    "tests/aggregators/test_slide_policies.py",
    "tests/benchmarks/test_rivals.py",
    "tests/cli/test_sql.py",
    "tests/conformance/test_timed_matrix.py",
    "tests/engine/test_bad_input.py",
    "tests/engine/test_calendar.py",
    "tests/engine/test_calls.py",
    "tests/engine/test_crafted_snapshots.py",
    "tests/engine/test_crafted_state.py",
    "tests/engine/test_digits.py",
    "tests/engine/test_edges.py",
    "tests/engine/test_every_fault.py",
    "tests/engine/test_exception_safety.py",
    "tests/engine/test_lookup.py",
    "tests/engine/test_memory.py",
    "tests/engine/test_migration_stores.py",
    "tests/engine/test_money_and_durations.py",
    "tests/engine/test_policy.py",
    "tests/engine/test_shift.py",
    "tests/engine/test_small_pages.py",
    "tests/engine/test_state_reader.py",
    "tests/engine/test_structures.py",
    "tests/fixtures/test_restored.py",
    "tests/frames/test_calendar.py",
    "tests/frames/test_queries.py",
    "tests/frames/test_sql.py",
    "tests/frames/test_trust.py",
    "tests/kernels/column/test_long_windows.py",
    "tests/kernels/column/test_rank_kernels.py",
    "tests/kernels/test_memory.py",
    "tests/plan/test_event_window_calendar.py",
    "tests/plan/test_event_window_made.py",
    "tests/spark/stream/test_fake_parity.py",
)
"""Files whose tests have the same long list of cases, all slow."""

MANY = 8
"""Tests with at least this many cases take turns."""

WHOLE = "tests/behaviour/"
"""Tests of which every case runs: mutants are noticed by some of them only."""

TURNS = 4
"""Number of tests after which each case has run once."""


def left_out(items: Iterable[Any]) -> Iterator[Any]:
    """The tests, of those that `make test` would run, whose parameters others have."""
    tests: dict[str, list[Any]] = {}
    for item in items:
        if hasattr(item, "callspec") and item.get_closest_marker("all_compiled") is None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in tests.items():
        chosen = cases if name.startswith(WHOLE) else _each_value(cases)
        if len(chosen) >= MANY and name.startswith(IN_TURN):
            chosen = chosen[crc32(name.encode()) % TURNS :: TURNS]
        yield from (case for case in cases if case not in chosen)


def _each_value(cases: list[Any]) -> list[Any]:
    """The first cases that have all values of all parameters."""
    covered: set[tuple[int, str]] = set()
    chosen = []
    for case in cases:
        values = set(enumerate(case.callspec._idlist))
        if len(values) < 2 or not values <= covered:
            chosen.append(case)
            covered |= values
    return chosen


def part_of(items: Iterable[Any], number: int, parts: int) -> Iterator[Any]:
    """A part of the tests of each file, those that follow one another: they compile the same kernels."""
    files: dict[str, list[Any]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for place, tests in enumerate(files.values()):
        turn = (number - 1 + place) % parts  # so that the tests of files with few of them are not all in one part
        yield from tests[len(tests) * turn // parts : len(tests) * (turn + 1) // parts]
