"""The catalogue: the paper, requirements and costs of each structure. Tables, tests, benchmarks and the planner use it.

Costs count calls of ⊕ (an inverse counts as one) with n for the size of the window. A bound is a number, or a
formula in n: `worst["evict"].at(n)` evaluates either. Averages are over long runs on a window that is not empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from sash.aggregators.aba import ABA
from sash.aggregators.amta import AMTA
from sash.aggregators.base import Aggregator
from sash.aggregators.bint import BInt
from sash.aggregators.btree import AugmentedBTree
from sash.aggregators.counted_tree import CountedTree, FrequencyTree
from sash.aggregators.daba import DABA
from sash.aggregators.daba_lite import DABALite
from sash.aggregators.fiba import AugmentedBTreeByPosition, FiBA, FiBAByPosition
from sash.aggregators.flat_fat import FlatFAT
from sash.aggregators.flat_fit import FlatFIT
from sash.aggregators.in_order import InOrder
from sash.aggregators.log_mta import LogMTA
from sash.aggregators.recalc import Recalc
from sash.aggregators.slick_deque_inv import SlickDequeInv
from sash.aggregators.slick_deque_non_inv import SlickDequeNonInv
from sash.aggregators.subtract_on_evict import SubtractOnEvict
from sash.aggregators.time_ordered import TimeOrdered
from sash.aggregators.two_stacks import TwoStacks
from sash.aggregators.two_stacks_lite import TwoStacksLite

REPORT = "Tangwongsan, Hirzel, Schneider: Constant-Time Sliding Window Aggregation, IBM RC25574, 2015"
JOURNAL = "Tangwongsan, Hirzel, Schneider: In-Order Sliding-Window Aggregation in Worst-Case Constant Time, VLDBJ 2021"

REACTIVE = "Tangwongsan, Hirzel, Schneider, Wu: General Incremental Sliding-Window Aggregation, PVLDB 2015"
SLICKDEQUE = "Shein, Chrysanthis, Labrinidis: SlickDeque, EDBT 2018"

ORDER = "Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms, 4th edition, 2022"

FINGERS = "Tangwongsan, Hirzel, Schneider: Optimal and General Out-of-Order Sliding-Window Aggregation, PVLDB 2019"

MTA = (
    "Villalba, Berral, Carrera: Constant-Time Sliding Window Framework with Reduced Memory Footprint and Efficient "
    "Bulk Evictions, IEEE TPDS 2019"
)


@dataclass(frozen=True)
class Cost:
    """A number of ⊕, as a formula to print and a function to call."""

    formula: str
    at: Callable[[int], float]

    @property
    def constant(self) -> bool:
        """Does the cost not depend on the size of the window?"""
        return self.at(2**10) == self.at(2**40)

    def __str__(self) -> str:
        return self.formula


def times(number: int) -> Cost:
    """A constant cost."""
    return Cost(str(number), lambda _n: number)


def _whole_log(n: float) -> int:
    return int(n).bit_length() - 1 if n >= 1 else 0


LINEAR = Cost("n", lambda n: n)
LOGARITHMIC = Cost("log n", lambda n: 1 + math.ceil(math.log2(max(n, 1))))


@dataclass(frozen=True)
class Record:
    """The catalogue entry of a structure.

    Costs of time-ordered structures are for a min-arity of 4; averages are for elements that arrive in order.
    """

    cls: type[Aggregator]
    paper: str
    section: str
    average: Mapping[str, Cost]
    worst: Mapping[str, Cost]
    space: Cost
    summary: str
    comparisons: str = ""
    """The comparisons of values that an operation takes, for structures that take any."""

    @property
    def name(self) -> str:
        return self.cls.__name__

    @property
    def needs(self) -> tuple[str, ...]:
        """The properties that a monoid must declare."""
        return self.cls.needs

    @property
    def timed(self) -> bool:
        """Is it time-ordered, for elements that arrive in any order?"""
        return issubclass(self.cls, TimeOrdered)

    @property
    def constant(self) -> bool:
        """Is every operation's worst case constant, as `prefer="latency"` requires?"""
        return not self.comparisons and all(cost.constant for cost in self.worst.values())


def _costs(insert: Cost, evict: Cost, query: Cost) -> Mapping[str, Cost]:
    return MappingProxyType({"insert": insert, "evict": evict, "query": query})


_LOG_4 = Cost("4 log n + 6", lambda n: 4 * math.log2(max(n, 1)) + 6)
_LOG_16 = Cost("16 log n + 16", lambda n: 16 * math.log2(max(n, 1)) + 16)
_NODES = Cost("4n + 10", lambda n: 4 * n + 10)

_RECORDS = (
    Record(
        Recalc,
        "baseline",
        "–",
        average=_costs(times(0), times(0), LINEAR),
        worst=_costs(times(0), times(0), LINEAR),
        space=LINEAR,
        summary="folds the window at every query; the oracle",
    ),
    Record(
        SubtractOnEvict,
        REPORT,
        "§8",
        average=_costs(times(1), times(1), times(0)),
        worst=_costs(times(1), times(1), times(0)),
        space=LINEAR,
        summary="a running total, from which the oldest is subtracted exactly",
    ),
    Record(
        TwoStacks,
        REPORT,
        "§4",
        average=_costs(times(1), times(1), times(1)),
        worst=_costs(times(1), LINEAR, times(1)),
        space=Cost("2n", lambda n: 2 * n),
        summary="two stacks, flipped when the front one is empty",
    ),
    Record(
        TwoStacksLite,
        JOURNAL,
        "§4",
        average=_costs(times(1), times(1), times(1)),
        worst=_costs(times(1), LINEAR, times(1)),
        space=Cost("n + 1", lambda n: n + 1),
        summary="the two stacks in one queue",
    ),
    Record(
        ABA,
        REPORT,
        "§5, figure 7",
        average=_costs(times(1), times(1), times(1)),
        worst=_costs(times(1), LINEAR, times(1)),
        space=Cost("2n", lambda n: 2 * n),
        summary="the two stacks, flipped in place",
    ),
    Record(
        DABA,
        REPORT,
        "§6, figure 17",
        average=_costs(times(2), times(1), times(1)),
        worst=_costs(times(3), times(2), times(1)),
        space=Cost("2n", lambda n: 2 * n),
        summary="the flip, done one step per operation",
    ),
    Record(
        DABALite,
        JOURNAL,
        "DABA Lite",
        average=_costs(times(2), times(1), times(1)),
        worst=_costs(times(3), times(2), times(1)),
        space=Cost("n + 2", lambda n: n + 2),
        summary="DABA in one queue",
    ),
    Record(
        FlatFAT,
        REACTIVE,
        "§4–5",
        average=_costs(times(0), times(0), LOGARITHMIC),
        worst=_costs(times(0), times(0), LINEAR),
        space=Cost("2·2^⌈log2 n⌉, up to 8n after it shrank", lambda n: 8 * max(n, 1)),
        summary="a tree that the query updates; elements may leave from anywhere",
    ),
    Record(
        BInt,
        SLICKDEQUE,
        "§2.2, after Arasu, Widom: VLDB 2004",
        average=_costs(times(1), times(0), LOGARITHMIC),
        worst=_costs(
            Cost("log n", lambda n: math.floor(math.log2(max(n, 1)))),
            times(0),
            Cost("2 log n", lambda n: math.floor(2 * math.log2(n + 2)) - 3 if n else 0),
        ),
        space=Cost("2·2^⌈log2 n⌉", lambda n: 2 * 2 ** math.ceil(math.log2(max(n, 1)))),
        summary="dyadic intervals; any range of the window",
    ),
    Record(
        FlatFIT,
        SLICKDEQUE,
        "§2.2",
        average=_costs(times(0), times(0), times(3)),
        worst=_costs(times(0), times(0), LINEAR),
        space=Cost("2n", lambda n: 2 * n),
        summary="partial aggregates with pointers to where they end",
    ),
    Record(
        SlickDequeInv,
        SLICKDEQUE,
        "§3.2, algorithm 1",
        average=_costs(times(1), times(1), times(0)),
        worst=_costs(times(1), times(1), times(0)),
        space=Cost("n + ranges", lambda n: n + 1),
        summary="a running aggregate for each range; the costs are for one",
    ),
    Record(
        SlickDequeNonInv,
        SLICKDEQUE,
        "§3.2, algorithm 2",
        average=_costs(Cost("< 2", lambda _n: 2), times(0), times(0)),
        worst=_costs(LINEAR, times(0), times(0)),
        space=Cost("2 to 2n", lambda n: 2 * n),
        summary="a deque of the elements that may still become the result",
    ),
    Record(
        LogMTA,
        MTA,
        "§4.1",
        average=_costs(
            Cost("½ log n + ½", lambda n: (math.log2(max(n, 1)) + 1) / 2),
            Cost("½ log n", lambda n: math.log2(max(n, 1)) / 2),
            times(1),
        ),
        worst=_costs(
            Cost("log n", _whole_log),
            Cost("log n - 1", lambda n: max(_whole_log(n) - 1, 0)),
            times(1),
        ),
        space=Cost("2n", lambda n: 2 * n),
        summary="a tree of pairs; evicts any number at once for log n - 1",
    ),
    Record(
        AMTA,
        MTA,
        "§4.2",
        average=_costs(times(2), times(1), times(2)),
        worst=_costs(
            Cost("log (n + 1)", lambda n: _whole_log(n + 1)),
            Cost("log n - 2", lambda n: max(_whole_log(n) - 2, 0)),
            Cost("3 log n - 2", lambda n: max(3 * _whole_log(n) - 2, 2 * _whole_log(n))),
        ),
        space=Cost("2n", lambda n: 2 * n),
        summary="a forest of pairs; evicts any number at once for 2 log n",
    ),
    Record(
        CountedTree,
        ORDER,
        "§17.1",
        average=_costs(times(0), times(0), times(0)),
        worst=_costs(times(0), times(0), times(0)),
        space=Cost("8n", lambda n: 8 * n),
        summary="the values in a balanced tree that counts them: order statistics in log n comparisons, without ⊕",
        comparisons="log n",
    ),
    Record(
        FrequencyTree,
        ORDER,
        "§17.1–17.2",
        average=_costs(times(0), times(0), times(0)),
        worst=_costs(times(0), times(0), times(0)),
        space=Cost("9n", lambda n: 9 * n),
        summary="the same, with the most frequent value of each subtree: the mode in log n comparisons, without ⊕",
        comparisons="log n",
    ),
    Record(
        AugmentedBTree,
        FINGERS,
        "§3.1",
        average=_costs(_LOG_4, _LOG_4, times(0)),
        worst=_costs(_LOG_16, _LOG_16, times(0)),
        space=_NODES,
        summary="in order of time: a B-tree with the aggregate of each subtree",
    ),
    Record(
        FiBA,
        FINGERS,
        "§3.2–4",
        average=_costs(times(6), times(9), times(2)),
        worst=_costs(_LOG_16, _LOG_16, times(2)),
        space=_NODES,
        summary="in order of time: log d for an event d places out of order; any range; evicts any number for log n",
    ),
)

CATALOGUE: Mapping[str, Record] = MappingProxyType({record.name: record for record in _RECORDS})
"""Every structure by name."""

IN_ORDER: Mapping[str, Record] = MappingProxyType({k: record for k, record in CATALOGUE.items() if not record.timed})
"""The in-order structures."""


BY_POSITION = {"FiBA": FiBAByPosition, "AugmentedBTree": AugmentedBTreeByPosition}
"""The time-ordered structures with the methods of in-order ones."""


def sequential(name: str) -> type[InOrder]:
    """The class that runs a structure on ordered elements. Raises KeyError for another name."""
    return cast("type[InOrder]", BY_POSITION[name] if name in BY_POSITION else IN_ORDER[name].cls)


def catalogue_name(structure: type[Aggregator]) -> str:
    """The name in the catalogue of a structure's class, or of its base."""
    return next((cls.__name__ for cls in structure.__mro__ if cls.__name__ in CATALOGUE), structure.__name__)


def table() -> str:
    """The catalogue as a Markdown table, as docs/structures.md shows it."""
    rows = ["| structure | needs | ⊕ per insert, evict, query | worst case | space | |", "|---|---|---|---|---|---|"]
    for record in CATALOGUE.values():
        needs = ", ".join(record.needs) or "–"
        average = ", ".join(map(str, record.average.values()))
        worst = ", ".join(map(str, record.worst.values()))
        rows.append(f"| `{record.name}` | {needs} | {average} | {worst} | {record.space} | {record.summary} |")
    return "\n".join(rows)
