"""Trace a structure, operation by operation: its contents, the pointers of the paper, and calls of ⊕.

Time-ordered trees are in `tree_trace.py`.

vals  3  1  4            aggregates by position, as the structure keeps them
aggs  4  4  4
      F     B  E         pointers: half-open, E is one past the youngest
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from sash.aggregators.base import Aggregator, fields
from sash.aggregators.btree_nodes import BTreeNodes
from sash.aggregators.catalogue import CATALOGUE
from sash.aggregators.counted_tree import CountedTree
from sash.aggregators.slick_deque_non_inv import SlickDequeNonInv
from sash.aggregators.two_stacks import TwoStacks
from sash.cli.job_file import nearest
from sash.cli.main import WrongUsage
from sash.cli.tree_trace import MIN_ARITY, TimedValue, TreeNode, timed_values, tree_lines, tree_nodes
from sash.engine.op_counter import OpCounter
from sash.monoids import functions
from sash.monoids.algebra import Bound, Monoid

AGGREGATES = ("max", "min", "sum", "product", "mean", "first", "last", "median", "mode")
"""Aggregates that can be traced; the first that a structure accepts is the default."""


@dataclass(frozen=True)
class TraceStep:
    """A structure after one operation and a query."""

    operation: str
    window: list[Any]
    """The values in it, the oldest first."""
    start: int
    """The position of the first cell of `arrays`."""
    arrays: dict[str, list[str]]
    """The stored values by position, from the oldest element to the youngest."""
    pointers: dict[str, int]
    states: dict[str, str]
    """Other stored aggregates, and counts."""
    combines: int
    """Calls of ⊕ by the operation; an inverse counts as one."""
    query_combines: int
    result: Any
    nodes: list[TreeNode] = field(default_factory=list)
    """The nodes of a time-ordered tree, from the root down."""

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


def trace_steps(structure: str, aggregate: str, values: Sequence[Any], size: int) -> Iterator[TraceStep]:
    """Slide a window of `size` rows over values, or over pairs of time and value if the structure is time-ordered.

    Raises WrongUsage for an unknown name, and for an aggregate that the structure does not accept.
    """
    window, counter = _made(structure, aggregate)
    if isinstance(window, BTreeNodes):
        yield from _tree_steps(window, counter, values, size)
        return
    if any(isinstance(value, TimedValue) for value in values):
        raise WrongUsage(f"{type(window).__name__} takes values in order: write them without times, such as 3,1,4")
    inside: list[Any] = []
    for value in values:
        if len(inside) == size:
            gone = inside.pop(0)
            window.evict()
            yield _step(window, f"evict {gone}", inside, counter)
        inside.append(value)
        window.insert(value)
        yield _step(window, f"insert {value}", inside, counter)


def _tree_steps(window: Any, counter: OpCounter, values: Sequence[Any], size: int) -> Iterator[TraceStep]:
    """Insert values at their times, in the given order; evict the oldest when there are more than `size`."""

    def step(operation: str) -> TraceStep:
        combines, result, query_combines = counter.taken(), window.query(), counter.taken()
        inside = [f"{time}:{_text(window, state)}" for time, state in window.elements()]
        nodes = tree_nodes(window, lambda state: _text(window, state))
        return TraceStep(operation, inside, 0, {}, {}, {}, combines, query_combines, result, nodes)

    for time, value in timed_values(values):
        window.insert(time, value)
        yield step(f"insert {time}:{value}")
        if window.size() > size:
            oldest = window.oldest
            window.evict()
            yield step(f"evict {oldest}")


def values_of(text: str) -> list[Any]:
    """Values separated by commas: all integers, else all numbers, else strings."""
    words = [word.strip() for word in text.split(",")]
    if any(":" in word for word in words):
        return _pairs(words)
    for kind in (int, float):
        try:
            return [kind(word) for word in words]
        except ValueError:
            continue
    return list(words)


def _pairs(words: Sequence[str]) -> list[Any]:
    """Pairs of a time and a value, such as 2:5. Raises WrongUsage for anything else."""
    for word in words:
        if word.count(":") != 1 or not all(word.split(":")):
            raise WrongUsage(f"{word!r} is not a time and a value, such as 2:5; write all values like that, or none")
    times, values = (values_of(",".join(side)) for side in zip(*(word.split(":") for word in words), strict=True))
    return [TimedValue(*pair) for pair in zip(times, values, strict=True)]


def _made(structure: str, aggregate: str) -> tuple[Any, OpCounter]:
    """A structure, and the monoid in it that counts calls of ⊕."""
    if structure not in CATALOGUE:
        known = {name.lower(): name for name in CATALOGUE}
        if structure.lower() not in known:
            raise WrongUsage(f"there is no structure {structure!r}{nearest(structure, CATALOGUE)}")
        structure = known[structure.lower()]
    made: Any = CATALOGUE[structure].cls
    if issubclass(made, BTreeNodes):
        made = partial(made, min_arity=MIN_ARITY)
    if aggregate and aggregate not in AGGREGATES:
        raise WrongUsage(f"--aggregate {aggregate} is not known{nearest(aggregate, AGGREGATES)}")
    why = ""
    for name in (aggregate,) if aggregate else AGGREGATES:
        try:
            monoid = _monoid(name)
            made(monoid)  # its error names the monoid, not its counter
            counter = OpCounter(monoid)
            return made(counter), counter
        except TypeError as error:
            why = why or str(error)
    raise WrongUsage(why)


def _monoid(name: str) -> Monoid:
    bound = getattr(functions, name)("x")
    assert isinstance(bound, Bound)
    return bound.monoid


def _step(window: Any, operation: str, inside: list[Any], counter: OpCounter) -> TraceStep:
    combines, result, query_combines = counter.taken(), window.query(), counter.taken()
    kinds = fields(type(window))
    pointers = {name: int(getattr(window, name)) for name in POINTERS if kinds.get(name) == "int"}
    states = {name: str(getattr(window, name)) for name in COUNTS if kinds.get(name) == "int"}
    states |= {name: _text(window, getattr(window, name)) for name, kind in kinds.items() if kind == "State"}
    arrays = {name: [_text(window, state) for state in cells] for name, cells in _arrays(window).items()}
    start = pointers.get("F", 0)
    return TraceStep(operation, list(inside), start, arrays, pointers, states, combines, query_combines, result)


POINTERS = ("F", "L", "R", "A", "M", "B", "E")
"""Positions of elements, by the names of the papers."""

COUNTS = ("fronts", "backs", "H", "T")
"""Sizes of stacks, and ends of a deque that has fewer nodes than the window has elements."""

ALIGNED = ("vals", "aggs", "deque", "partials")
"""Queues with a slot for each element of the window, at its position."""


def _arrays(window: Any) -> dict[str, list[Any]]:
    """The values of a structure by position, from the oldest element to the youngest; none for trees."""
    if isinstance(window, TwoStacks):
        front, back = range(window.fronts - 1, -1, -1), range(window.backs)
        return {
            "vals": [*(window.front_vals[i] for i in front), *(window.back_vals[i] for i in back)],
            "aggs": [*(window.front_aggs[i] for i in front), *(window.back_aggs[i] for i in back)],
        }
    if isinstance(window, SlickDequeNonInv):
        nodes = {window.positions[j]: window.vals[j] for j in range(window.H, window.T)}
        return {"vals": [nodes.get(i) for i in range(window.F, window.E)]}
    if isinstance(window, CountedTree):
        return {}
    queues = [name for name, kind in fields(type(window)).items() if kind == "Queue" and name in ALIGNED]
    return {name: [getattr(window, name)[i] for i in range(window.F, window.E)] for name in queues}


def _text(window: Aggregator, state: Any) -> str:
    """A state as readable text: lowered. The identity and unused slots have no value."""
    if state is None or window.monoid.same(state, window.monoid.identity):
        return "·"
    return str(window.monoid.lower(state))


def trace_lines(steps: Sequence[TraceStep]) -> Iterator[str]:
    """The steps for a terminal."""
    for number, step in enumerate(steps, 1):
        cost = f"⊕ {step.combines}, query {step.query_combines}"
        yield f"{number:>3}  {step.operation:<12} {cost:<16} window {' '.join(map(str, step.window))} → {step.result}"
        if step.nodes:
            yield from (f"       {line}" for line in tree_lines(step.nodes))
            continue
        labels = labels_of(step)
        rows = {**step.arrays, "": [labels.get(step.start + i, "") for i in range(len(step.window) + 1)]}
        width = max(len(cell) for cells in rows.values() for cell in cells)
        for name, cells in rows.items():
            if any(cells):
                yield f"       {name:<9} {' '.join(cell.ljust(width) for cell in cells)}".rstrip()
        if step.states:
            yield f"       {', '.join(f'{name} = {text}' for name, text in step.states.items())}"


def labels_of(step: TraceStep) -> dict[int, str]:
    """The names of the pointers at each position."""
    found: dict[int, str] = {}
    for name, position in step.pointers.items():
        found[position] = found.get(position, "") + name
    return found
