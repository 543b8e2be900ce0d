"""Examples that run: `make demo`, or `python -m examples.demo`."""
