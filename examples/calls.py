"""Calls of the last 24 hours, every minute: the longest, how many were as long, and who made it.

The example of the paper on the Reactive Aggregator (Tangwongsan, Hirzel, Schneider and Wu, VLDB 2015, Figure 1). As
there, a result is emitted only if it differs from the previous one.

    minute   0        1        2        3   …
    calls    │ a   b  │   c    │        │
             └────────┴────────┴────────┘      one partial per minute, at most 1,440, however many calls there are

Calls are reported when they end, and their event time is when they began, so they arrive out of order, by less than an
hour.

Run by `python -m examples.calls`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import sash

QUERY = sash.Query(
    sash.Time("24h", every="1m"),
    on="began",
    lateness="1h",
    emit="changes",
    longest=sash.max("minutes"),
    as_long=sash.max_count("minutes"),
    who=sash.arg_max("minutes", "caller"),
)
SCHEMA = pa.schema([("began", pa.timestamp("s", "UTC")), ("caller", pa.string()), ("minutes", pa.int64())])
CALLERS = ("ann", "bob", "cid", "dee", "eve", "fay", "gus", "hal")
START = 1_704_067_200  # 2024-01-01T00:00Z
CUT_OFF = 40


def calls(count: int, days: float = 2.0, batch: int = 500) -> Iterator[pa.RecordBatch]:
    """Calls over some days, in batches, in the order in which they end. After forty minutes a call is cut off."""
    chance = np.random.default_rng(2015)
    began = chance.integers(0, int(days * 86_400), count)
    minutes = np.minimum(chance.geometric(0.15, count), CUT_OFF)
    callers = np.array(CALLERS)[chance.integers(0, len(CALLERS), count)]
    order = np.argsort(began + 60 * minutes, kind="stable")
    time = pa.array(START + began[order]).cast(SCHEMA.field("began").type)
    whole = pa.RecordBatch.from_arrays([time, pa.array(callers[order]), pa.array(minutes[order])], schema=SCHEMA)
    for place in range(0, count, batch):
        yield whole.slice(place, batch)


def main() -> None:
    print("until              longest  as long  who")
    for batch in QUERY.run(calls(5000)):
        for row in batch.to_pylist():
            print(f"{row['window_end']:%a %d %b %H:%M}  {row['longest']:3} min  {row['as_long']:7}  {row['who']}")


if __name__ == "__main__":
    main()
