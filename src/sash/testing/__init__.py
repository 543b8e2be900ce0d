"""For tests, ours and yours: the laws of the algebra, and the reference of all queries.

`check_laws(monoid, values)` tests a monoid of your own. `Reference(query, schema)` is an operator by definition,
simple and slow, and `assert_same` compares the outputs of two of them. `ADVERSARIAL` has streams that break careless
sums; `exact_windows` and `worst_error` tell by how much. `sash.testing.strategies`, `queries` and `streams` have
Hypothesis strategies for the inputs of aggregates, for queries and for whole streams (and need `hypothesis`).
"""

from sash.testing.adversarial import ADVERSARIAL, exact_windows, worst_error
from sash.testing.compare import assert_same
from sash.testing.laws import LawError, Report, check_laws
from sash.testing.reference import Reference

__all__ = [
    "ADVERSARIAL",
    "LawError",
    "Reference",
    "Report",
    "assert_same",
    "check_laws",
    "exact_windows",
    "worst_error",
]
