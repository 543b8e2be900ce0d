"""Whole columns: aggregates of all rows of a table at once, without the state of keys.

    table ─▶ keys, times ─▶ row order ─▶ bounds ─▶ inputs ─▶ a kernel an aggregate ─▶ results in the order of the table

`stateless`        a query with a result for each row, on a table in memory: calls all others
`row_order`        rows by key and time; `keys`, `time_numbers`: keys and times as numbers; `watermark`: which rows
                   have a time; `key_columns`: keys as words, for the operator
`column_inputs`    the inputs of one aggregate, in order; `input_encoding`: columns as numbers and back
`aggregate_batch`  an aggregate between Arrow columns and loops; `lowered_results`: several results of one state
`direct_columns`   aggregates that need no structure; `many_sizes`: windows that differ in size alone
`as_of_columns`    windows that end at the rows of another table
`projected_results`   formulas, and nulls below `min_periods`
`failed_rows`, `row_errors`   rows on which an aggregate fails; `exact_columns`: casts without loss

A module imports only what most calls need: structures, ranks, expressions and the codec are imported where they are
used, so that a first call need not load them.

Frames, batches on Spark and the operator use this package. It imports neither the state of keys (`sash.engine`) nor
pages (`sash.state`).
"""
