"""The algebra: monoids, and the laws that they obey.

A monoid defines four names: `identity`, `lift`, `combine`, `lower`. With ⊕ for `combine`:

    identity      combine(identity, a) == a == combine(a, identity)
    associative   combine(combine(a, b), c) == combine(a, combine(b, c))

and, where it is declared,

    inverse       inverse(combine(a, b), a) == b                 exactly: removes the oldest elements
    commutative   combine(a, b) == combine(b, a)
    selective     combine(a, b) is b if picks_right(a, b) else a
    exact         the laws above hold without a tolerance

`sash.testing.check_laws` tests all of them. Declared properties choose algorithms: a false one is a bug.

           lift              combine            lower
    x ───────────▶ state ──────⊕──────▶ state ─────────▶ result
                     ▲                    │
                     └──── identity ◀─────┘ no input yet
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar
from weakref import WeakKeyDictionary

from sash.expressions.tree import Expr, described
from sash.monoids.arithmetic import Aggregated, state_text

MOST_ROWS = 2**31 - 1
"""The largest number of rows that an aggregate counts back."""

Kind = Literal["bool", "int", "float"]
"""The kinds of compiled columns: `bool`, 64-bit `int`, 64-bit `float`."""

Domain = Literal["any", "hashable", "ordered", "number", "int", "bool", "text"]
"""The types of columns that an input accepts."""

ColumnLike = str | Expr
"""An input of an aggregate: a column's name, or an expression over the columns."""

Condition = str | Expr | None
"""A condition on rows: a boolean column's name, an expression, or None for all rows."""

Function = TypeVar("Function", bound=Callable[..., Any])

TOLERANCE = 1e-9
"""The tolerance for two states of an inexact monoid, relative to their largest float."""


class Monoid:
    """An associative operation with an identity, and functions from inputs and to results.

    Subclasses define the first four names; the next ones only if they hold. Instances are immutable values: an
    instance depends only on its constructor's arguments, stored under their names.

    >>> from sash.monoids import Max
    >>> m = Max()
    >>> m.lower(m.combine(m.lift(3), m.lift(5)))
    5
    """

    identity: Any
    lift: Callable[..., Any]
    combine: Callable[[Any, Any], Any]
    lower: Callable[[Any], Any]

    inverse: Callable[[Any, Any], Any] | None = None
    commutative: bool = False
    selective: bool = False
    exact: bool = False
    empty: Any = None
    dump: Callable[[Any], bytes] | None = None
    load: Callable[[bytes], Any] | None = None
    name: str = ""
    returns: Any = None

    # ---- the rest derives from the above; few monoids change it ----

    nullable: tuple[int, ...] = ()
    """Inputs that may be null without the row being skipped (the payload of `arg_max`)."""

    counts_nulls: bool = False
    """Whether null rows count, as for `lag`. A query then adds an input: whether the value is present (`NullRows`)."""

    null_row: Any = None
    """For typed monoids with `counts_nulls`: the state of a null row."""

    reads_time: bool = False
    """Whether it needs the time of each row. A query then runs `by_time(length)`, and adds the time as an input."""

    domain: tuple[Domain, ...] = ("any",)
    """The domain of each input."""

    interpreted_only: str = ""
    """For monoids that never compile: the reason (their states are Python objects)."""

    order_statistic: bool = False
    """Whether a counted tree of its values gives the result."""

    most_frequent: bool = False
    """Whether the most frequent value in a tree of frequencies gives the result."""

    rounding: float = 1e-25
    """For inexact monoids: the error relative to the largest operand, where numbers of 106 bits cancel."""

    sample_rows: int = 1
    """The number of sample rows after which every scalar of a state holds an input."""

    declares_empty: bool = True
    """False only for a user's monoid without `empty`: the result of an empty window is then `lower(identity)`."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def picks_right(self, a: Any, b: Any) -> bool:
        """For selective monoids: is `combine(a, b)` the operand `b`?"""
        return not identical(self.combine(a, b), a)

    def same(self, a: Any, b: Any) -> bool:
        """Are two states equal: exactly for exact monoids, else within `TOLERANCE`?"""
        return agree(a, b, 0.0 if self.exact else TOLERANCE)

    def typed(self, *_kinds: Kind) -> Monoid:
        """The monoid as it runs on columns of these kinds: the same results, a flat typed state.

        On columns `lower` is never called for a window without input, so a typed identity may be any value that obeys
        the law (-inf for the maximum of floats).
        """
        return self

    def changed(self, **attributes: Any) -> Self:
        """A copy with other attributes, which need not be parameters of the class."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), **attributes)
        return twin

    def on_tree(self) -> Monoid:
        """The form that reads its result from a tree of values; for order statistics only."""
        raise TypeError(f"{self!r} is not an order statistic")

    def by_time(self, length: float) -> Monoid:  # noqa: ARG002 (for those that override it)
        """For a monoid that `reads_time`: the monoid of (value, time), with its half-life in units of the time."""
        raise TypeError(f"{self.name} does not read the time")

    def lifted(self, row: tuple[Any, ...]) -> Any:
        """`lift(*row)`, or the identity if the row has a null."""
        for position, value in enumerate(row):
            if value is None and position not in self.nullable:
                return self.identity
        return self.lift(*row)

    def parameters(self) -> dict[str, Any]:
        """The arguments that make it, without those that have their defaults."""
        known = inspect.signature(type(self)).parameters.values()
        found = {one.name: (getattr(self, one.name), one.default) for one in known if hasattr(self, one.name)}
        inner = Monoid.__annotations__  # `typed` fills these
        return {name: value for name, (value, default) in found.items() if name not in inner and value != default}

    def called(self) -> str:
        """What is called with columns to bind it: the name of its function."""
        return self.name or repr(self)

    def policy_value(self, a: Any) -> Any:
        """The value of a state for a policy: the state itself, or its plain value if the state is an encoding."""
        return a

    def nothing(self) -> Any:
        """The result of the empty window: `empty` if declared, else `lower(identity)`.

        Raises ValueError, naming the monoid, if `lower` fails on the identity.
        """
        if self.declares_empty:
            return self.empty
        try:
            return self.lower(self.identity)
        except Exception as error:
            raise ValueError(
                f"the window is empty, and lower(identity) of {self!r} failed with "
                f"{type(error).__name__}: {error}; insert first, or declare the result of an empty window "
                "with empty=..."
            ) from error

    @property
    def arity(self) -> tuple[int, int | None]:
        """The least and the greatest number of inputs of `lift` (None: any number)."""
        if "lift" in vars(self):  # a user's function
            return _arity(self.lift)
        cls = type(self)
        if cls not in _ARITIES:  # reading a signature takes 10 µs, and each bound aggregate asks
            _ARITIES[cls] = _arity(self.lift)
        return _ARITIES[cls]

    def __call__(self, *columns: ColumnLike | None, where: Condition = None) -> Bound:
        """Bind the aggregate to columns: `Max()("price")` is `sash.max("price")`.

        columns: the names of its inputs, or expressions made with `sash.expr`; none, or None, for an array.
        where: a condition such as "status = 'ok'", or the name of a boolean column; the input of other rows is null.
        """
        given = () if len(columns) == 1 and columns[0] is None and self.arity[0] == 1 else columns
        return Bound(self, given, where)  # type: ignore[arg-type]

    def __mul__(self, other: Monoid) -> Monoid:
        """The direct product: both aggregates of the same input."""
        from sash.monoids.direct_product import DirectProduct

        return DirectProduct(self, other) if isinstance(other, Monoid) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        given = inspect.signature(type(self)).parameters
        arguments = [f"{key}={getattr(self, key)!r}" for key in given if hasattr(self, key)]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


_ARITIES: WeakKeyDictionary[type[Monoid], tuple[int, int | None]] = WeakKeyDictionary()


def _arity(lift: Callable[..., Any]) -> tuple[int, int | None]:
    least, most = 0, 0
    try:
        parameters = inspect.signature(lift).parameters
    except ValueError:  # some built-in functions have no signature
        return 1, None
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return least, None
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            least += parameter.default is parameter.empty
    return least, most


@dataclass(frozen=True, init=False)
class Bound(Aggregated):
    """An aggregate bound to the columns it reads, on the rows for which a condition holds.

    >>> import sash
    >>> sash.arg_max("price", "trader"), sash.sum("qty", where="price > 10")
    (arg_max('price', 'trader'), sum('qty', where='price > 10'))

    Raises TypeError if the number of columns does not fit the aggregate.
    """

    monoid: Monoid
    columns: tuple[ColumnLike, ...]
    condition: Expr | None
    window: Any
    """The window that `over` set; None for the windows of the query."""

    def __init__(
        self, monoid: Monoid, columns: tuple[ColumnLike, ...], where: Condition = None, window: Any = None
    ) -> None:
        from sash.expressions.parser import condition

        label = monoid.name or repr(monoid)
        values = {"monoid": monoid, "columns": tuple(columns), "condition": condition(where, label), "window": window}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check(label)

    def _check(self, label: str) -> None:
        for column in self.columns:
            if isinstance(column, Aggregated):
                raise TypeError(
                    f"{label} takes the names of columns; got {column!r}: an aggregate of an aggregate is computed in "
                    "two steps, the second over the result of the first"
                )
            if not isinstance(column, str | Expr):
                name = getattr(column, "name", "")
                raise TypeError(
                    f"{label} takes the names of columns, or expressions made with sash.expr; got {described(column)}: "
                    f"write {label}({name if name and isinstance(name, str) else 'x'!r}); the frame is for sash.rolling"
                )
        least, most = self.monoid.arity
        if self.condition is not None and most == 0:
            raise TypeError(
                f"where= of {label}: the aggregate takes no columns, so a condition has no input to leave out"
            )
        too_few = len(self.columns) < least and not self.awaits_column
        if too_few or (most is not None and len(self.columns) > most):
            raise self._wrong_columns()

    def _wrong_columns(self) -> TypeError:
        least, most = self.monoid.arity
        label = self.monoid.name or repr(self.monoid)
        inputs = ", ".join(inspect.signature(self.monoid.lift).parameters)
        wanted = str(least) if least == most else f"{least} to {most}" if most is not None else f"{least} or more"
        got = ", ".join(map(repr, self.columns)) or "none"
        noun = "column" if wanted == "1" else "columns"
        return TypeError(f"{label} takes {wanted} {noun} ({inputs}); got {len(self.columns)}: {got}")

    @property
    def awaits_column(self) -> bool:
        """Has it no column yet, as in `sash.mean()`? Its input is an array then."""
        return not self.columns and self.monoid.arity[0] == 1

    def require_columns(self) -> None:
        """Raises TypeError if it has no column yet."""
        if self.awaits_column:
            raise self._wrong_columns()

    def of_column(self, name: str) -> Self:
        return type(self)(self.monoid, (name,), self.condition, self.window) if self.awaits_column else self

    @property
    def is_plain(self) -> bool:
        """Does it read columns as they are, on all rows?"""
        return self.condition is None and all(isinstance(column, str) for column in self.columns)

    def reads(self) -> Iterator[str]:
        """The names of all columns that it reads, also in expressions and in its condition."""
        for column in (*self.columns, *((self.condition,) if self.condition is not None else ())):
            yield from (column,) if isinstance(column, str) else column.columns

    def leaves(self) -> Iterator[Bound]:
        """The aggregate itself."""
        yield self

    def over(self, window: Any) -> Self:
        """The same over a window of its own. Raises ValueError if it has one."""
        if self.window is not None:
            raise ValueError(f"{self!r} has a window already: call over() once")
        if window is None:
            raise TypeError("over() takes a window such as sash.Time('1h'), a number of rows or a duration; got None")
        return self.with_window(window)

    def with_window(self, window: Any) -> Self:
        """The same aggregate with this window of its own."""
        return type(self)(self.monoid, self.columns, self.condition, window)

    def state_text(self) -> str:
        parts = [*map(repr, self.columns), *self._where()]
        given = f"{self.monoid.name or repr(self.monoid)}({', '.join(parts)})"
        return given if self.window is None else f"{given}.over({state_text(self.window)})"

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self.monoid.parameters().items()]
        given = f"{self.monoid.called()}({', '.join([*map(repr, self.columns), *named, *self._where()])})"
        return given if self.window is None else f"{given}.over({self.window!r})"

    def _where(self) -> list[str]:
        return [] if self.condition is None else [f"where={self.condition.text!r}"]


def itself(x: Any) -> Any:
    """A value unchanged."""
    return x


def noinline(function: Function) -> Function:
    """Mark a function that compiled code calls instead of inlining: long, rare, or called from many places."""
    function.noinline = True  # type: ignore[attr-defined]
    return function


def identical(a: Any, b: Any) -> bool:
    """Are they identical: the same object, and in compiled code the same bits?

    `==` is false for NaN and itself, and true for -0.0 and 0.0.
    """
    return a is b


def agree(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Are two states (or results) equal, floats within `tolerance` of the largest float among them?

    NaN agrees with NaN; a tolerance never covers an infinity. Tuples, lists and dicts are compared element by element,
    everything but floats by `==`.

    >>> agree((2, 0.1 + 0.2), (2, 0.3)), agree((2, 0.1 + 0.2), (2, 0.3), 1e-9)
    (False, True)
    """
    return agree_within(a, b, tolerance * largest_float((a, b)))


def largest_float(a: Any) -> float:
    """The largest finite float in a state or several, by magnitude; 0.0 if there is none."""
    return max((abs(x) for x in _floats(a) if math.isfinite(x)), default=0.0)


def _floats(a: Any) -> list[float]:
    if isinstance(a, float):
        return [a]
    if isinstance(a, dict):
        a = [*a.values()]
    return [x for part in a for x in _floats(part)] if isinstance(a, tuple | list) else []


def agree_within(a: Any, b: Any, slack: float) -> bool:
    """Are two states equal, floats within an absolute tolerance?"""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= slack
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(agree_within(x, y, slack) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(agree_within(a[key], b[key], slack) for key in a)
    return bool(a == b)
