"""Whole-column kernels: one aggregate in one pass over a column, many times faster than a structure.

    bounds ─▶ column_kernels: threads, each a range of rows ─▶ min_max, sum_mean, variance, rank_kernels, …

`column_kernels`  the kernel of each aggregate, and the threads that run it
`bounds`          starts and ends of windows: by rows, time, gaps, marks; at the times of another table
`per_key`         turns a kernel for the rows of one key into a kernel for many keys
`min_max`         min, max, arg_min, arg_max; over many sizes
`sum_mean`        sum and mean of floats and integers; `exact_sum`: sums in parts that do not round; `prefix_sums`
`variance`        var and std; `ewm_ranges`: exponentially weighted aggregates
`rank_kernels`    the kernels of order statistics: `quantiles` in narrow and wide windows, `ranks` (and modes),
                  `distinct_counts`
`group_rows`      group rows by key by counting, gather and scatter

All but `column_kernels` and `rank_kernels` are loops in plain Python that run only compiled. Each has
two forms: over Count windows, whose bounds are computed, and over ranges, arrays of bounds [lo, hi) that never
decrease; order statistics have the second only.

    rows     · · · · · · · · · · ·
             ├──── block ────┼──── block ────┤          Count windows: blocks as long as the window
                      ◀──────┼─────▶                    a result is a suffix of one ⊕ a prefix of the next
             ├── front ──┼── back ──▶                   ranges: two stacks, flipped when the front is empty

Running sums of floats consist of parts that do not round (`exact_sum`), so results do not drift. A kernel marks results
that it is uncertain of (an overflow, lost digits), and the aggregate's own ⊕ computes them.
"""
