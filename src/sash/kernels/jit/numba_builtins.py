"""`min` and `max` of two scalars and `int` of one as instructions, for functions of sash.

Numba compiles a function for each of them and each combination of types, which takes some 25 ms.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import errors, types
from numba.core.typing import signature
from numba.extending import intrinsic


def _chosen(typing: Any, a: Any, b: Any, beats: Any) -> Any:
    """b if it beats a, else a, as in Python: a later number never replaces a NaN."""
    both = typing.unify_types(a, b)
    if not isinstance(both, types.Number | types.Boolean):
        raise errors.TypingError(f"min or max of {a} and {b}")

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first, second = (context.cast(builder, arg, kind, both) for arg, kind in zip(args, sig.args, strict=True))
        test = context.get_function(beats, signature(types.boolean, both, both))
        return builder.select(test(builder, (second, first)), second, first)

    return both(a, b), build


@intrinsic
def _max(typing: Any, a: Any, b: Any) -> Any:
    return _chosen(typing, a, b, operator.gt)


@intrinsic
def _min(typing: Any, a: Any, b: Any) -> Any:
    return _chosen(typing, a, b, operator.lt)


@intrinsic
def _int(typing: Any, x: Any) -> Any:
    """Convert to an integer; integers keep their width."""
    if not isinstance(x, types.Integer | types.Boolean | types.Float):
        raise errors.TypingError(f"int of {x}")

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.cast(builder, args[0], sig.args[0], sig.return_type)

    return (x if isinstance(x, types.Integer) else types.intp)(x), build


BUILTINS = {"min": _min, "max": _max, "int": _int}
