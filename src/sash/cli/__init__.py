"""What people look at: pictures of results, and `python -m sash`."""

from sash.cli.plots import plot

__all__ = ["plot"]
