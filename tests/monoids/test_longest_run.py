"""LongestRun: the positions that it returns."""

import numpy as np

from sash.aggregators import DABA
from sash.kernels import slide
from sash.monoids import LongestRun


def test_places_that_are_booleans_count_as_numbers_in_a_loop_and_on_columns() -> None:
    values, places = [1, 2, 3, 0], [False, True, True, False]
    window = DABA(LongestRun())
    for value, place in zip(values, places, strict=True):
        window.insert(value, place)
    expected = (0, 1, 1, 3)
    assert window.query() == expected
    on_columns = slide(DABA, LongestRun(), (np.array(values), np.array(places)), 4).to_list()[-1]
    assert on_columns == expected
    assert list(map(type, window.query())) == list(map(type, on_columns)) == [int] * 4
