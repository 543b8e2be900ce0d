"""Queries: validated, bound to a schema, planned and explained.

    arguments ─validation─▶ Query ─binder─▶ BoundQuery ─planner─▶ Plan ─explain─▶ text
                              └────────────dispatch──▶ the host of the data

`query`        Query, frozen data; `queries`: several over one input, and those that share a state as one
`rolling`      a query and data in one call; `as_of` with a spine (`as_of_query`)
`options`      how a query runs; results do not depend on it
`validation`   checks of arguments                 `api_types`       types of the public API
`binder`       binds a query to a schema           `bound_query`     BoundQuery, WindowSpec, AggregateSpec
`time_axis`    durations in units of a column      `types`           input and result types of aggregates
`planner`      chooses structures                  `common_results`  aggregates that share one state
`explain`      the plan as text, also without a schema
`fingerprint`  the identity of a query's state     `schema_cache`    what was computed for a schema

It runs nothing: hosts and the operator are found by name when a query runs.
"""

from sash.plan.options import Options
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.plan.rolling import as_of, rolling

__all__ = ["Options", "Queries", "Query", "as_of", "rolling"]
