"""Whole-column kernels: one aggregate in one pass over a column, many times as fast as a structure.

`column_kernels`  which aggregate has a kernel, and how it runs over threads
`bounds`          where windows start and end: by rows, time, gaps, marks
`per_key`         makes a kernel for rows of one key into one over the rows of many
`min_max`         min, max, arg_min, arg_max
`sum_mean`        sum and mean of floats and integers; `exact_sum`: sums in parts that do not round
`variance`        var and std
`group_rows`      rows grouped by key by counting, gathered, and put back; `numpy_loops`: the same of few rows, in NumPy

All but `column_kernels` and `numpy_loops` are loops in plain Python that are only ever run compiled. Two forms of each:
over Count windows, whose bounds need not be looked up, and over ranges, bounds of any kind, [lo, hi) with neither ever
going back.

    rows     · · · · · · · · · · ·
             ├──── block ────┼──── block ────┤          Count windows: blocks as long as the window
                      ◀──────┼─────▶                    a result is a suffix of one ⊕ a prefix of the next
             ├── front ──┼── back ──▶                   ranges: the two stacks, flipped when the front is used up

No result is undone by subtraction, so none can drift. Where a kernel cannot vouch for a result (an overflow, digits
lost) it says so, and the aggregate's own ⊕ computes it.
"""
