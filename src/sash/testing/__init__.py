"""Tools for tests, ours and yours: the laws of the algebra, and the reference implementation of queries.

`check_laws(monoid, values)` tests a monoid of your own. `Reference(query, schema)` is a simple and slow operator that
follows the definitions, and `assert_same` compares the outputs of two operators. `ADVERSARIAL` has streams that break
careless sums; `exact_windows` and `worst_error` measure the error. `sash.testing.strategies` has Hypothesis strategies
for the inputs of aggregates (and needs `hypothesis`).
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
