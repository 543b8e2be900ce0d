"""Intake: what happens to the rows of a call before a key sees them.

`input_checks` converts and validates a batch, `reorder_buffer` keeps rows at or above the watermark and releases them
in order, `progress` counts what came and where the operator is. Late and failed rows leave here.
"""
