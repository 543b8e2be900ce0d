"""SQL expressions over the columns of a row: parsed by sqlglot into a tree of ours, computed by Arrow.

Importing this loads neither sqlglot nor pyarrow.
"""

from sash.expressions.tree import Expr

__all__ = ["Expr"]
