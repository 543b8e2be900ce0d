"""Windows that differ only in size: the starts of all of them, for each end of the longest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.engine.arrow_arrays import all_true, stacked
from sash.engine.step_data import WindowRanges
from sash.kernels.loops.array_types import Flags, Ints


def starts_by_size(longest: WindowRanges, found: Sequence[WindowRanges], alike: bool) -> tuple[Ints, Flags, list[Ints]]:
    """For each window and each end of the longest: the first element, whether a result is wanted, and the places of the
    window's results among those of the longest. `alike`: all windows have the ends of the longest; then no places.
    """
    if alike:
        los = stacked([one.los for one in found])
        if all(one.all_on for one in found):
            return los, np.broadcast_to(all_true(los.shape[1]), los.shape), []
        return los, np.stack([one.on for one in found]), []
    if longest.among is None and all(one.every_lo is not None for one in found):
        los = stacked([one.every_lo for one in found])
        return los, np.broadcast_to(all_true(los.shape[1]), los.shape), places_among(longest, found)
    los = np.tile(longest.his, (len(found), 1))  # type: ignore[arg-type]
    on = np.zeros(los.shape, np.bool_)
    places = places_among(longest, found)
    for k, one in enumerate(found):
        los[k, places[k]], on[k, places[k]] = one.los, one.on
    return los, on, places


def places_among(longest: WindowRanges, found: Sequence[WindowRanges]) -> list[Ints]:
    """The places of windows' results among those of a longer one, which has a result at each of their ends."""
    everywhere = np.arange(len(longest))
    if (
        longest.among is None
        and longest.by_slide
        and all(one.among is not None or one.common is longest.common for one in found)
    ):
        return [everywhere if one.among is None else one.among for one in found]
    ident, slots = longest.ident, longest.slots
    least = int(ident.min(initial=0))
    width = int(ident.max(initial=0)) - least + 1
    theirs = slots * width + (ident - least)
    order = np.argsort(theirs, kind="stable")
    theirs = theirs[order]
    return [
        everywhere
        if len(one) == len(longest)
        else order[np.searchsorted(theirs, one.slots * width + (one.ident - least))]
        for one in found
    ]
