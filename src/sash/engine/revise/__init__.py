"""The state of keys for emit="eager": rows in order, a tree for each aggregate, and revisions of results.

    rows ─▶ eager_state ─▶ eager_results, eager_slides: may change ─▶ trees ─▶ those that did, as revisions

`eager_engine`   one call; `eager_change` has what it changes, and undoes it
`eager_rows`, `eager_state`   rows by key and time; keys, windows and timers
`eager_aggregate`   one aggregate: states of rows, and a FiBA for each key
`eager_rules`    windows as rows of numbers for the loops
`eager_lookup`   the aggregates of some keys at a time

It knows neither pages nor stores.
"""
