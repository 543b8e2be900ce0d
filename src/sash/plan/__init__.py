"""Queries: validated, bound to a schema, planned and explained.

`query`        Query, frozen data                  `options`     how a query runs; results do not depend on it
`rolling`      a query and data in one call        `dispatch`    finds the host for the data
`as_of`        a query, a spine and events         `as_of_query` windows that end at the rows of a spine
`validation`   checks of arguments                 `api_types`   types of the public API
`binder`       binds a query to a schema           `bound_query` BoundQuery, WindowSpec, AggregateSpec
`time_axis`    durations in units of a column      `types`       input and result types of aggregates
`type_probe`   result types of user aggregates     `default_schema`  types where no schema is given
`planner`      chooses structures                  `state_sharing`   aggregates that share one state
`explain`      the plan as text                    `fingerprint` identifies the state of a query
`queries`      Queries, over one input             `combined_query`  several queries as one
`event_window` sash.Window, for a Python loop, with `event_clock`, `evictor` and `loop_aggregate`
"""

from sash.plan.as_of import as_of
from sash.plan.event_window import Window
from sash.plan.options import Options
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.plan.rolling import rolling

__all__ = ["Options", "Queries", "Query", "Window", "as_of", "rolling"]
