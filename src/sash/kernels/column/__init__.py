"""Whole-column kernels: one aggregate in one pass over a column, many times faster than a structure.

`column_kernels`  the kernel of each aggregate, and the threads that run it
`bounds`          starts and ends of windows: by rows, time, gaps, marks
`per_key`         turns a kernel for the rows of one key into a kernel for many keys
`min_max`         min, max, arg_min, arg_max
`sum_mean`        sum and mean of floats and integers; `exact_sum`: sums in parts that do not round
`variance`        var and std
`order_kernels`   the kernels of order statistics, and their execution:
                  `narrow_quantiles` and `wide_quantiles` (and medians), `window_ranks`, `modes`, `distinct_counts`,
                  on the keys of `order_keys`, ranked by `rank_compression` or in `value_buckets`, in sets of ranks
                  (`rank_sets`)
`group_rows`      group rows by key by counting, gather and scatter; `numpy_loops`: the same for few rows, in NumPy

All but `column_kernels`, `order_kernels` and `numpy_loops` are loops in plain Python that run only compiled. Each has
two forms: over Count windows, whose bounds are computed, and over ranges, arrays of bounds [lo, hi) that never
decrease; order statistics have the second only.

    rows     · · · · · · · · · · ·
             ├──── block ────┼──── block ────┤          Count windows: blocks as long as the window
                      ◀──────┼─────▶                    a result is a suffix of one ⊕ a prefix of the next
             ├── front ──┼── back ──▶                   ranges: two stacks, flipped when the front is empty

Running sums of floats consist of parts that do not round (`exact_sum`), so results do not drift. A kernel marks results
that it is uncertain of (an overflow, lost digits), and the aggregate's own ⊕ computes them.
"""
