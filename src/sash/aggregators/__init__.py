"""The data structures of windows: one paper, one file, one class. `catalogue.CATALOGUE` has the requirements and costs
of each.
"""

from sash.aggregators.aba import ABA
from sash.aggregators.amta import AMTA
from sash.aggregators.bint import BInt
from sash.aggregators.btree import AugmentedBTree
from sash.aggregators.counted_tree import CountedTree, FrequencyTree
from sash.aggregators.daba import DABA
from sash.aggregators.daba_lite import DABALite
from sash.aggregators.fiba import FiBA
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

__all__ = [
    "ABA", "AMTA", "DABA", "AugmentedBTree", "BInt", "CountedTree", "DABALite", "FiBA", "FlatFAT", "FlatFIT",
    "FrequencyTree", "InOrder", "LogMTA", "Recalc", "SlickDequeInv", "SlickDequeNonInv", "SubtractOnEvict",
    "TimeOrdered", "TwoStacks", "TwoStacksLite",
]  # fmt: skip
