"""Windows that differ only in size: the starts of all of them, for each end of the longest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.engine.arrow_arrays import everyone
from sash.engine.step_data import WindowRanges
from sash.kernels.loops.array_types import Flags, Ints


def starts_by_size(longest: WindowRanges, found: Sequence[WindowRanges], alike: bool) -> tuple[Ints, Flags, list[Ints]]:
    """For each window and each end of the longest: the first element, whether a result is wanted, and the places of the
    window's results among those of the longest. `alike`: all windows have the ends of the longest; then no places.
    """
    if alike:
        los = np.stack([one.los for one in found])  # type: ignore[misc]
        if all(one.all_on for one in found):
            return los, np.broadcast_to(everyone(los.shape[1]), los.shape), []
        return los, np.stack([one.on for one in found]), []
    los = np.tile(longest.his, (len(found), 1))  # type: ignore[arg-type]
    on = np.zeros(los.shape, np.bool_)
    places = [places_among(longest, one) for one in found]
    for k, one in enumerate(found):
        los[k, places[k]], on[k, places[k]] = one.los, one.on  # type: ignore[assignment]
    return los, on, places


def places_among(longest: WindowRanges, found: WindowRanges) -> Ints:
    """The places of a window's results among those of a longer one, which has a result at each of its ends."""
    if len(found) == len(longest):
        return np.arange(len(found))
    ident, slots = longest.ident, longest.slots
    least = int(ident.min())
    width = int(ident.max()) - least + 1
    theirs, mine = slots * width + (ident - least), found.slots * width + (found.ident - least)
    order = np.argsort(theirs, kind="stable")
    return order[np.searchsorted(theirs[order], mine)]
