"""Queries on batch DataFrames: one sorted pass per partition; large keys are split by time range.

rows ─▶ repartition by key, sort ─▶ mapInArrow: partition_task ─▶ rows
rows ─▶ range_split, pack_ranges: (key, time range) with lookback ─▶ partition_task ─▶ rows     for too large keys

`plan_batch`      the DataFrame of a query, or of several; `as_of_task`: of a query as of the rows of a spine
`partition_task`  the task of a worker, and its executors
`range_split`     whether and where to split keys; `time_ranges`: ranges and their lookback; `pack_ranges`: their rows
"""
