"""Compiling: classes, monoids and loops in plain Python to machine code through Numba, and its cache on disk."""
