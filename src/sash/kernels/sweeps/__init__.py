"""Sweeps: kernels special to an aggregate that run once over a whole column, many times as fast as a structure does.

`stretch`     a kernel for rows of one key, as one over the rows of many
`bounds`      where windows start and end: by rows, time, gaps, marks
`extremes`    min, max, arg_min, arg_max
`totals`      sum and mean of floats, sum and mean of integers
`spread`      var and std
`order`       rows grouped by key by counting, gathered, and put back
`sweep`       which aggregate has one, and the way to it, over threads

All but `sweep` are loops in plain Python that are only ever run compiled. Two forms of each: over Count windows, whose
bounds need not be looked up, and over spans, bounds of any kind, [lo, hi) with neither ever going back.

    rows     · · · · · · · · · · ·
             ├──── block ────┼──── block ────┤          Count windows: blocks as long as the window
                      ◀──────┼─────▶                    a result is a suffix of one ⊕ a prefix of the next
             ├── front ──┼── back ──▶                   spans: the two stacks, flipped when the front is used up

No result is undone by subtraction, so none can drift. Where a kernel cannot vouch for a result (an overflow, digits
lost) it says so, and the aggregate's own ⊕ computes it.
"""
