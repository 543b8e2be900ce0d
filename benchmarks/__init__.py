"""Benchmarks: ratios to named rivals in one run; the results go to docs/performance.md, losses included."""
