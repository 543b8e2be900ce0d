"""Policy windows: a function says when a window drops its oldest part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sash.windows.specs import WindowKind, set_fields


class BoundAggregate(Protocol):
    """An aggregate of columns, such as `sash.sum("x")`."""

    @property
    def monoid(self) -> Any:
        """The monoid."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads, or expressions over them."""


@dataclass(frozen=True, repr=False)
class Policy(WindowKind):
    """A window that a function slides: AMTA's user-programmable slide.

    evict: a function `evict(total, prefix) -> bool` that says whether the window drops its oldest part. It gets the
        states (before `lower`) of the aggregates in `over`, for the whole window and for that part: a tuple each, or,
        where `over` is a single aggregate, its state. It must be monotone: if it drops a part, it drops every shorter
        one.
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

    def __init__(self, evict: Callable[[Any, Any], bool], over: BoundAggregate | Sequence[BoundAggregate]) -> None:
        if not callable(evict):
            raise TypeError(f"evict= of Policy must be a function of (total, prefix); got {evict!r}")
        one = _bound(over)
        several = (over,) if one else over
        if not isinstance(several, tuple | list) or not several or not all(map(_bound, several)):
            raise TypeError(
                f"over= of Policy must be an aggregate of columns, such as sash.sum('x'), or several; got {over!r}"
            )
        set_fields(self, evict=evict, over=tuple(several), alone=one)

    def evicts(self, total: tuple[Any, ...], prefix: tuple[Any, ...]) -> bool:
        """Call `evict` with a value for each aggregate of `over`."""
        return bool(self.evict(total[0], prefix[0]) if self.alone else self.evict(total, prefix))

    @property
    def evict_name(self) -> str:
        """The name of the function, without the scopes around it."""
        return str(getattr(self.evict, "__qualname__", repr(self.evict))).rpartition(".")[2]

    def __repr__(self) -> str:
        over = repr(self.over[0]) if self.alone else f"({', '.join(map(repr, self.over))})"
        return f"Policy({self.evict_name}, over={over})"


def _bound(value: Any) -> bool:
    # by its attributes: this package imports no other of sash
    return hasattr(value, "monoid") and hasattr(value, "columns")
