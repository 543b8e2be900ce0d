"""The starts of windows of many sizes as one array: without a copy where they lie in one."""

import numpy as np

from sash.columns.arrow_arrays import stacked


def test_neighbouring_rows_are_not_copied() -> None:
    block = np.arange(12).reshape(4, 3).copy()
    found = stacked([block[1], block[2], block[3]])
    assert np.shares_memory(found, block)
    assert found.tolist() == block[1:].tolist()


def test_others_are_copied() -> None:
    block = np.arange(12).reshape(4, 3).copy()
    for rows in ([0, 2], [1, 0], [3, 3]):
        found = stacked([block[row] for row in rows])
        assert found.tolist() == block[rows].tolist()
        assert not np.shares_memory(found, block)
    assert stacked([block[0, :2], block[1, :2]]).tolist() == [[0, 1], [3, 4]]
    assert stacked([np.arange(2), np.arange(2)]).tolist() == [[0, 1], [0, 1]]
    assert stacked([np.empty((2, 0), np.int64)[0]] * 2).shape == (2, 0)
