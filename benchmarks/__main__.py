"""Run benchmarks, print their tables and write them into docs/performance.md (not if quick)."""

from __future__ import annotations

import argparse

from benchmarks import (
    as_of,
    break_even,
    bulk,
    call_sizes,
    calls,
    coarse,
    columns,
    distance,
    engine,
    fifo,
    first_call,
    gaps,
    growth,
    latency,
    many_keys,
    memory,
    one_row,
    order_statistics,
    own,
    page,
    queries,
    ranges,
    rounds,
    sharing,
    slides,
    stored_operator,
    stores,
    trips,
    trust,
)

BENCHMARKS = {
    "rounds": rounds.main,
    "break_even": break_even.main,
    "ranges": ranges.main,
    "coarse": coarse.main,
    "latency": latency.main,
    "bulk": bulk.main,
    "memory": memory.main,
    "stores": stores.main,
    "distance": distance.main,
    "fifo": fifo.main,
    "sharing": sharing.main,
    "slides": slides.main,
    "trips": trips.main,
    "engine": engine.main,
    "call_sizes": call_sizes.main,
    "many_keys": many_keys.main,
    "stored_operator": stored_operator.main,
    "calls": calls.main,
    "growth": growth.main,
    "gaps": gaps.main,
    "one_row": one_row.main,
    "columns": columns.main,
    "order_statistics": order_statistics.main,
    "as_of": as_of.main,
    "own": own.main,
    "first_call": first_call.main,
    "trust": trust.main,
    "queries": queries.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--quick", action="store_true", help="small windows, no page written")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in arguments.names or BENCHMARKS:
        text = BENCHMARKS[name](arguments.quick)
        if not arguments.quick:
            page.write(name, text)
        print(text)


if __name__ == "__main__":
    main()
