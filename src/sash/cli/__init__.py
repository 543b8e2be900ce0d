"""What people look at and type: SQL, pictures of results, and `python -m sash`.

`sql`            `sash.sql`; `sql_statement`, `sql_select`, `sql_windows` and `sql_aggregates` read a statement
`plots`          `sash.plot`
`environment`    `python -m sash`: what is installed
"""

from sash.cli.plots import plot
from sash.cli.sql import sql

__all__ = ["plot", "sql"]
