"""Queries on batch DataFrames: one sorted pass a partition; large keys are split by time range."""
