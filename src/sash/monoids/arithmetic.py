"""Arithmetic on bound aggregates: `sash.sum("x") / sash.sum("y")` is a Formula, computed from their results.

Operators have the meaning that they have in expressions: a division gives a float and null for a divisor of zero, a
null operand gives null, and an integer that does not fit 64 bits is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex

from sash.expressions.source_text import excerpt
from sash.expressions.tree import CallNode, ColumnNode, Expr, LiteralNode, Node, described

if TYPE_CHECKING:
    from sash.monoids.algebra import Bound

ScalarOperand = SupportsIndex | float


def _combining(function: str) -> Callable[[Any, Aggregated | ScalarOperand], Formula]:
    """An operator of aggregates and numbers."""
    return lambda left, right: _formula(function, left, right)


def _combining_swapped(function: str) -> Callable[[Any, ScalarOperand], Formula]:
    """The same for a number on the left."""
    return lambda right, left: _formula(function, left, right)


def _refusing(operator: str) -> Callable[[Any, object], NoReturn]:
    """An operator that formulas do not have. Raises TypeError, with what to do instead."""

    def refuse(left: Any, right: object) -> NoReturn:
        raise TypeError(
            f"{left!r} {operator} {_operand_text(right)}: aggregates have + - * / and unary - only. For other "
            "operators use the column of the result; for a condition on rows use where="
        )

    return refuse


def _refusing_call(function: str) -> Callable[..., NoReturn]:
    """A function that an aggregate does not have. Raises TypeError, with what to do instead."""

    def refuse(operand: Any, *_more: Any) -> NoReturn:
        raise TypeError(f"{function} of {operand!r}: aggregates have + - * / and unary - only. {_ON_RESULT}")

    return refuse


class Aggregated:
    """A result column of a query: an aggregate of columns, or a formula of several aggregates."""

    def leaves(self) -> Iterator[Bound]:
        """The aggregates, from left to right."""
        raise NotImplementedError

    def over(self, window: Any) -> Self:
        """The same over a window of its own, in place of those of the query.

        window: a window such as `sash.Time("1h")`, a number of rows, or a duration such as "1h".

        >>> import sash
        >>> sash.max("price").over("1h")
        max('price').over('1h')
        """
        raise NotImplementedError

    def of_column(self, name: str) -> Self:
        """The same with this column as the input of each aggregate that has none."""
        raise NotImplementedError

    def state_text(self) -> str:
        """The text that identifies it in stored state: without the parameters of aggregates, which have their own key.

        It must not change: the fingerprints of stored state depend on it.
        """
        raise NotImplementedError

    def where(self, condition: Any = None) -> NoReturn:
        """Raises TypeError, with the call to write: a condition is an argument of each aggregate."""
        given = repr(condition) if isinstance(condition, str) else "'price > 10'"
        calls = " and ".join(f"sash.{_with_condition(one, given)}" for one in dict.fromkeys(self.leaves()))
        raise TypeError(f"a condition is an argument of an aggregate, where=, not a method of it: write {calls}")

    __add__, __radd__ = _combining("+"), _combining_swapped("+")
    __sub__, __rsub__ = _combining("-"), _combining_swapped("-")
    __mul__, __rmul__ = _combining("*"), _combining_swapped("*")
    __truediv__, __rtruediv__ = _combining("/"), _combining_swapped("/")

    def __neg__(self) -> Formula:
        return Formula("negate", (self,))

    __lt__, __le__, __gt__, __ge__ = _refusing("<"), _refusing("<="), _refusing(">"), _refusing(">=")
    __pow__, __mod__, __floordiv__, __matmul__ = _refusing("**"), _refusing("%"), _refusing("//"), _refusing("@")
    __and__, __or__, __xor__ = _refusing("&"), _refusing("|"), _refusing("^")
    __invert__, __abs__, __round__ = _refusing_call("~"), _refusing_call("abs"), _refusing_call("round")
    __int__, __float__ = _refusing_call("int"), _refusing_call("float")

    def __getitem__(self, _place: object) -> NoReturn:
        raise TypeError(f"{self!r} is an aggregate, which has no values. {_ON_RESULT}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_options: Any) -> Formula:
        """Arithmetic with a scalar of NumPy; NumPy's functions of an aggregate are refused."""
        function = _UFUNCS.get(ufunc.__name__) if method == "__call__" else None
        if function is None:
            _refusing_call(f"np.{ufunc.__name__}")(self)
        if any(getattr(one, "ndim", 0) for one in inputs):
            raise TypeError(f"{self!r} {function} an array: aggregates are combined with aggregates and numbers only")
        return Formula("negate", (self,)) if function == "negate" else _formula(function, *inputs)

    if not TYPE_CHECKING:  # type checkers would take any name

        def __getattr__(self, name: str) -> NoReturn:
            """Raises AttributeError, with what to write: an aggregate is a description, and has no methods of data."""
            if name.startswith("_"):
                raise AttributeError(name)
            what = f"{self!r} has no attribute {name!r}"
            if name in ("alias", "name", "rename", "label", "as_"):
                raise AttributeError(f"{what}: a result is named by its keyword, sash.rolling(df, '1h', high={self!r})")
            raise AttributeError(f"{what}: it describes a result. {_ON_RESULT}")


_ON_RESULT = "Apply it to the column of the result: sash.rolling(…)['y']"
_UFUNCS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "negative": "negate"}


DEEPEST = 150
"""The greatest depth of a formula."""


@dataclass(frozen=True)
class Formula(Aggregated):
    """A calculation with aggregates and numbers: an operator and its operands.

    >>> import sash
    >>> sash.sum("x") / sash.count() - 1
    sum('x') / count() - 1
    """

    function: str
    operands: tuple[Aggregated | LiteralNode, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Raises ValueError for a formula too deep for those that read it, which are recursive."""
        depth = 1 + max((one.depth for one in self.operands if isinstance(one, Formula)), default=0)
        if depth > DEEPEST:
            raise ValueError(f"a formula has at most {DEEPEST} operations, one within another: split it in two results")
        object.__setattr__(self, "depth", depth)

    def leaves(self) -> Iterator[Bound]:
        """The aggregates, from left to right; equal ones as often as they occur."""
        for one in self.operands:
            if isinstance(one, Aggregated):
                yield from one.leaves()

    def over(self, window: Any) -> Self:
        """The same with each aggregate that has no window of its own over this one."""
        return replace(self, operands=tuple(_over(one, window) for one in self.operands))

    def of_column(self, name: str) -> Self:
        operands = [one.of_column(name) if isinstance(one, Aggregated) else one for one in self.operands]
        return replace(self, operands=tuple(operands))

    def tree(self, numbers: Iterator[int]) -> Node:
        """The formula as a tree in which each aggregate is a column, named by the next number."""
        return CallNode(self.function, tuple(_node(one, numbers) for one in self.operands))

    def state_text(self) -> str:
        return self._text(state_text)

    def __repr__(self) -> str:
        return self._text(repr)

    def _text(self, written: Callable[[Any], str]) -> str:
        texts = [self._operand(one, place, written) for place, one in enumerate(self.operands)]
        return f"-{texts[0]}" if self.function == "negate" else f"{texts[0]} {self.function} {texts[1]}"

    def _operand(self, one: Aggregated | LiteralNode, place: int, written: Callable[[Any], str]) -> str:
        if isinstance(one, LiteralNode):
            return str(one)
        if not isinstance(one, Formula):
            return written(one)
        outer, inner = _PRECEDENCE[self.function], _PRECEDENCE[one.function]
        return f"({written(one)})" if inner < outer or (inner == outer and place) else written(one)


def state_text(one: Any) -> str:
    """The text that identifies an aggregate or a window in stored state; that of `repr` if it has no other."""
    return str(one.state_text()) if hasattr(one, "state_text") else repr(one)


def _with_condition(leaf: Bound, given: str) -> str:
    """An aggregate as a user writes it, with a condition."""
    name = leaf.monoid.name or type(leaf.monoid).__name__
    return f"{name}({', '.join([*map(repr, leaf.columns), f'where={given}'])})"


_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3}


def _over(operand: Aggregated | LiteralNode, window: Any) -> Aggregated | LiteralNode:
    if isinstance(operand, Formula):
        return operand.over(window)
    is_free = isinstance(operand, Aggregated) and next(operand.leaves()).window is None
    return operand.over(window) if is_free else operand  # type: ignore[union-attr]


def _node(operand: Aggregated | LiteralNode, numbers: Iterator[int]) -> Node:
    if isinstance(operand, LiteralNode):
        return operand
    if isinstance(operand, Formula):
        return operand.tree(numbers)
    return ColumnNode(str(next(numbers)))


def _formula(function: str, left: Any, right: Any) -> Formula:
    operands = [_operand(one) for one in (left, right)]
    if any(one is None for one in operands):
        raise TypeError(
            f"{_operand_text(left)} {function} {_operand_text(right)}: aggregates are combined with aggregates and "
            "numbers only"
        )
    return Formula(function, tuple(operands))


def _operand_text(value: Any) -> str:
    """An operand in a message: as it is written, or the type of a frame, an array or another object."""
    is_written = isinstance(value, Aggregated | Expr | int | float | str)
    return excerpt(value) if is_written else "an array" if getattr(value, "ndim", 0) else described(value)


def _operand(value: Any) -> Any:
    """An operand: an aggregate, or a number as a literal; None for anything else.

    Raises ValueError for NaN, infinities and beyond 64 bits.
    """
    if isinstance(value, Aggregated):
        return value
    item = None if getattr(value, "ndim", 0) else getattr(value, "item", None)
    value = item() if item is not None else value  # a scalar of NumPy
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{excerpt(value)} does not fit 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"an aggregate cannot be combined with {value}, which is not a number")
    return LiteralNode("int" if isinstance(value, int) else "float", value)
