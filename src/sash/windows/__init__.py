"""Windows, as plain data and arithmetic. Imports nothing else of sash.

`slices`    where a stream is cut so that windows of several lengths and slides share partial aggregates
"""
