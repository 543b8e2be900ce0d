"""Calls of ⊕ are counted and compared with the costs in the catalogue."""

from collections import Counter
from collections.abc import Iterator

import pytest

from sash.aggregators import DABA, InOrder
from sash.aggregators.catalogue import IN_ORDER, Record
from sash.aggregators.in_order import EVICT, INSERT
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.conformance.machines import fitting
from tests.shared.effort import share
from tests.shared.workloads import WORKLOADS

MARGIN = 1.02
"""What an average may exceed the catalogue's by: a run ends amid a turn."""

DESCENT = 200
"""Values fall until the window holds this many, and then rise: a deque of maxima first keeps all, then drops all."""

records = pytest.mark.parametrize("record", IN_ORDER.values(), ids=IN_ORDER)
workloads = pytest.mark.parametrize("workload", WORKLOADS)


def costs(window: InOrder, counted: OpCounter, operations: list[int]) -> Iterator[tuple[str, int, int]]:
    """(operation, size of the window, ⊕ it took) for each operation, and for a query after each."""
    counted.taken()
    for step, operation in enumerate(operations):
        size = len(window) + (operation == INSERT)
        if operation == INSERT:
            window.insert(step if size > DESCENT else -step)
        else:
            window.evict()
        yield "insert" if operation == INSERT else "evict", size, counted.taken()
        window.query()
        yield "query", len(window), counted.taken()


def counting(record: Record) -> tuple[InOrder, OpCounter]:
    counted = OpCounter(fitting(record.cls))
    return record.cls(counted), counted


@records
@workloads
def test_no_operation_exceeds_its_worst_case(record: Record, workload: str) -> None:
    window, counted = counting(record)
    for operation, size, cost in costs(window, counted, WORKLOADS[workload](share(2000))):
        assert cost <= record.worst[operation].at(size), (operation, size)


@records
def test_the_worst_case_is_no_worse_than_it_gets(record: Record) -> None:
    window, counted = counting(record)
    seen: dict[str, float] = {"insert": 0.0, "evict": 0.0, "query": 0.0}
    for operation, size, cost in costs(window, counted, WORKLOADS["oscillating"](2000)):
        if size > 100:
            seen[operation] = max(seen[operation], cost / max(record.worst[operation].at(size), 1))
    for operation, reached in seen.items():
        assert reached > 0.99 or record.worst[operation].at(1) == 0, (operation, reached)


@records
@pytest.mark.parametrize("width", [2, 3, 10, 100])
def test_averages_of_a_fixed_window(record: Record, width: int) -> None:
    window, counted = counting(record)
    for i in range(5 * width):
        window.insert(i)
        if len(window) > width:
            window.evict()
    totals: Counter[str] = Counter()
    rounds = 24 * width
    for operation, _, cost in costs(window, counted, [EVICT, INSERT] * rounds):
        totals[operation] += cost
    sizes = {"insert": width, "evict": width, "query": width - 0.5}
    for operation, cost in record.average.items():
        calls = rounds * (2 if operation == "query" else 1)
        assert totals[operation] / calls <= cost.at(sizes[operation]) * MARGIN, operation  # type: ignore[arg-type]


@records
def test_averages_of_a_random_run(record: Record) -> None:
    window, counted = counting(record)
    spent: Counter[str] = Counter()
    stated: Counter[str] = Counter()
    for operation, size, cost in costs(window, counted, WORKLOADS["random"](5000)):
        spent[operation] += cost
        stated[operation] += record.average[operation].at(size)  # type: ignore[assignment]
    for operation, cost in spent.items():
        assert cost <= stated[operation] * MARGIN, operation


@records
@workloads
def test_an_element_pays_for_its_insert_and_its_evict(record: Record, workload: str) -> None:
    """Amortised, whatever the order of operations: no run costs more than its inserts have paid."""
    window, counted = counting(record)
    spent = paid = 0.0
    for operation, size, cost in costs(window, counted, WORKLOADS[workload](share(2000))):
        if operation != "query":
            spent += cost
        if operation == "insert":
            paid += record.average["insert"].at(size) + record.average["evict"].at(size)
        assert spent <= paid


@pytest.mark.parametrize(("structure", "most"), [("TwoStacks", 3), ("TwoStacksLite", 3), ("DABA", 4)])
@pytest.mark.parametrize("width", [2, 7, 64, 500])
def test_a_round_of_evict_insert_and_query(structure: str, most: int, width: int) -> None:
    window, counted = counting(IN_ORDER[structure])
    for i in range(3 * width):
        window.insert(i)
        if len(window) > width:
            window.evict()
    counted.taken()
    rounds = 12 * width
    for i in range(rounds):
        window.evict()
        window.insert(i)
        window.query()
    assert counted.taken() / rounds <= most * MARGIN


def test_a_second_query_of_daba_costs_nothing() -> None:
    counted = OpCounter(Sum())
    window = DABA(counted)
    for step, operation in enumerate(WORKLOADS["random"](500)):
        if operation == INSERT:
            window.insert(step)
        else:
            window.evict()
        first = window.query()
        counted.taken()
        assert window.query() == first
        assert counted.taken() == 0


def test_the_empty_window_answers_without_a_combine() -> None:
    for record in IN_ORDER.values():
        window, counted = counting(record)
        window.insert(1)
        window.evict()
        counted.taken()
        window.query()
        assert counted.taken() == 0, record.name
