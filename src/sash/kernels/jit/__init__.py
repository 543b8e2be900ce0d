"""Compile classes, monoids and loops in plain Python to machine code with Numba, and cache it on disk."""
