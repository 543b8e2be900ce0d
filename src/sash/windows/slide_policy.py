"""Policy windows: a function decides how many of its oldest elements a window evicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sash.expressions.source_text import function_name, function_text
from sash.windows.rules import BoundLengths, WindowRule
from sash.windows.specs import WindowKind, set_fields


class BoundAggregate(Protocol):
    """An aggregate of columns, such as `sash.sum("x")`."""

    @property
    def monoid(self) -> Any:
        """The monoid."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads, or expressions over them."""

    def state_text(self) -> str:
        """The text that identifies it in stored state."""

    def require_columns(self) -> None:
        """Raises TypeError if it has no column."""


@dataclass(frozen=True, repr=False)
class Policy(WindowKind):
    """A window whose oldest elements a user-defined function evicts: a slide policy, as in the AMTA paper.

    evict: a function `evict(total, prefix) -> bool` that decides whether the window evicts a prefix, its oldest
        elements. It gets the states (before `lower`) of the aggregates in `over`, of the whole window and of the
        prefix: a tuple each, or, if `over` is a single aggregate, its state. It must be monotone: if it evicts a
        prefix, it evicts every shorter one.
    over: the aggregates that `evict` looks at: one, or a list.

    >>> import sash
    >>> window = Policy(lambda t, p: t - p > 10, over=sash.sum("x"))
    >>> window.evicts((15,), (3,))
    True

    Raises TypeError if `evict` is no function or `over` no bound aggregate.
    """

    evict: Callable[[Any, Any], bool]
    over: Any
    alone: bool = field(init=False, default=False)
    """Was `over` a single aggregate?"""

    kind = "policy"

    def __init__(self, evict: Callable[[Any, Any], bool], over: BoundAggregate | Sequence[BoundAggregate]) -> None:
        if not callable(evict):
            raise TypeError(f"evict= of Policy must be a function of (total, prefix); got {evict!r}")
        alone = _is_aggregate(over)
        aggregates = (over,) if alone else over
        if not isinstance(aggregates, tuple | list) or not aggregates or not all(map(_is_aggregate, aggregates)):
            raise TypeError(
                f"over= of Policy must be an aggregate of columns, such as sash.sum('x'), or several; got {over!r}"
            )
        for one in aggregates:
            one.require_columns()
        set_fields(self, evict=evict, over=tuple(aggregates), alone=alone)

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("policy", lengths)

    @property
    def holds(self) -> str:
        return f"rows that {self.evict_name} does not evict, by {', '.join(map(repr, self.over))}"

    def evicts(self, total: tuple[Any, ...], prefix: tuple[Any, ...]) -> bool:
        """Call `evict` with a value for each aggregate of `over`."""
        return bool(self.evict(total[0], prefix[0]) if self.alone else self.evict(total, prefix))

    @property
    def evict_name(self) -> str:
        """The name of the function, without the scopes around it."""
        return function_name(self.evict)

    def state_text(self) -> str:
        """The text that identifies it in stored state, and must not change; code and parameters have their own key."""
        return f"Policy({self.evict_name}, over={self._over([one.state_text() for one in self.over])})"

    def __repr__(self) -> str:
        return f"Policy({function_text(self.evict)}, over={self._over([*map(repr, self.over)])})"

    def _over(self, texts: list[str]) -> str:
        return texts[0] if self.alone else f"({', '.join(texts)})"


def _is_aggregate(value: Any) -> bool:
    # this package cannot import the class
    return hasattr(value, "monoid") and hasattr(value, "columns")
