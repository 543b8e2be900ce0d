"""Queries on batch DataFrames: one sorted pass per partition; large keys are split by time range."""
