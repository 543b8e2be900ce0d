"""Compile classes, monoids and loops in plain Python to machine code with Numba, and cache it on disk.

    monoid ─code_fingerprint─▶ numba_monoid ┐
    structure ─▶ numba_struct, numba_methods ┴─▶ compile ─▶ machine code ◀─▶ cache (memory, disk, wheel)

`state_layout`     the flat layout of states, found by running the monoid on a sample
`numba_arrays`, `numba_intrinsics`, `word_operations`   columns, slots and words as the compiler sees them
`policy_monoid`    a slide policy as a monoid             `inner_code`   compiles inner functions with fewer passes
`cache_directory`  refuses directories that other users can change

Only this package imports Numba.
"""
