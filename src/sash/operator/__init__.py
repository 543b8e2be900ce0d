"""The operator: the one engine. Arrow record batches in, Arrow record batches out, its state a set of pages.

`operator`     what users call                      `engine`      one step over all keys
`arrivals`     late, untimed, the watermark         `buffer`      rows that wait for it
`keys`         keys as codes and hashes             `frame`       rows, segments, items
`series`       where windows begin and end          `measure`     an aggregate between Arrow and the kernels
`shelf`        what is kept of a key, in pages      `emission`    final, changes, eager
"""

from sash.operator.metrics import Metrics
from sash.operator.operator import Operator, stream

__all__ = ["Metrics", "Operator", "stream"]
