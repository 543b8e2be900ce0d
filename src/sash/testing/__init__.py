"""For tests, ours and yours: the laws of the algebra, counting, workloads.

`check_laws(monoid, values)` tests a monoid of your own. `sash.testing.strategies` has Hypothesis strategies
for the inputs of aggregates (and needs `hypothesis`).
"""

from sash.testing.counted import Counted
from sash.testing.laws import LawError, Report, check_laws
from sash.testing.workloads import ARRIVALS, WORKLOADS

__all__ = ["ARRIVALS", "WORKLOADS", "Counted", "LawError", "Report", "check_laws"]
