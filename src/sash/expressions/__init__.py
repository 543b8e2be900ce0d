"""SQL expressions over the columns of a row: parsed by sqlglot into a tree of ours, computed by Arrow.

    text ─parser─▶ tree ─┬─ arrow_evaluation (arrow_functions): on whole columns
                         └─ row_evaluation: on one row, in a loop

`parsed_sql` records what is read of sqlglot's trees. Importing this package loads neither sqlglot nor pyarrow.
"""

from sash.expressions.tree import Expr

__all__ = ["Expr"]
