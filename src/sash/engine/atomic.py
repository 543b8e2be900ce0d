"""Change several objects atomically with respect to interrupts.

Python runs signal handlers, and so raises KeyboardInterrupt, only between bytecode instructions. A chain of calls in C
has none: state that must change together is prepared first, and then assigned by one such chain.
"""

from __future__ import annotations

import operator
from collections import deque
from functools import partial
from typing import Any, Protocol


class Revertible(Protocol):
    """An object whose state can be restored."""

    def mark(self) -> Any:
        """The current state, for `rollback`."""

    def rollback(self, mark: Any) -> None:
        """Restore the state at `mark`."""


def all_at_once(*changes: partial[Any]) -> None:
    """Apply changes without a bytecode instruction in between: each is a call of a C function.

    >>> one, two = {}, [0]
    >>> all_at_once(partial(dict.update, one, a=1), partial(operator.setitem, two, 0, 5))
    >>> one, two
    ({'a': 1}, [5])
    """
    deque(map(operator.call, changes), maxlen=0)


def attributes(of: object, **values: Any) -> partial[Any]:
    """A change of several attributes of an object, for `all_at_once`."""
    return partial(dict.update, vars(of), values)


def items(of: Any, at: Any, values: Any) -> partial[Any]:
    """A change of items of an array or a list, for `all_at_once`."""
    return partial(operator.setitem, of, at, values)
