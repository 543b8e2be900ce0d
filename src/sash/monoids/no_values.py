"""The aggregate of a column without values: null, for every window."""

from __future__ import annotations

from sash.monoids.first_last import First


class NoValues(First):
    """Stands for any aggregate of a column of type null: no row has a value, so no result is ever lowered.

    >>> NoValues().empty is None
    True
    """
