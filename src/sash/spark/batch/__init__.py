"""Queries on batch DataFrames: one sorted pass per partition; large keys are split by time range.

rows ─▶ repartition by key, sort ─▶ mapInArrow: an operator in mode "sorted" ─▶ rows
rows ─▶ range_split: (key, time range) with lookback ─▶ range_task ─▶ rows        for keys that are too large
"""
