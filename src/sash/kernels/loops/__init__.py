"""Loops that drive structures over columns and live state, and the bound kernel that calls them.

Loops are plain Python that runs compiled or interpreted: `structure_loops`, `timed_loops` (structures on columns),
`live_loops`, `slot_loops`, `timer_loops`, `window_loops`, `key_loops` (live state of keys),
`eager_loops`, `eager_windows`, `eager_trees` (rows in order, with a tree each). The comparisons of window bounds are
those of `sash.windows.rules`.
"""
