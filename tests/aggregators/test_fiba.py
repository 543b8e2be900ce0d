"""FiBA and its baseline step by step: the paper's examples, each change of shape, and repaired partials."""

from typing import Any

import pytest

from sash.aggregators import AugmentedBTree, FiBA
from sash.aggregators.btree import FLAGS, LEFT, RIGHT, ROOT
from sash.monoids import Max, MaxCount
from sash.monoids.op_counter import OpCounter
from tests.aggregators.btree_cases import STRUCTURES, build, coins, counting, shape_of, spent
from tests.conformance.machines import JOIN

every = pytest.mark.parametrize("structure", STRUCTURES)


@every
@pytest.mark.parametrize("min_arity", [2, 3, 4])
def test_the_example_of_section_2(structure: Any, min_arity: int) -> None:
    """A window of 5 seconds; the last event comes late; then the watermark is at 7.2, then at 7.7."""
    both = Max() * MaxCount()
    window = structure(both, min_arity)
    for time, value in [(2.0, 4), (3.0, 3), (4.0, 0), (6.0, 4)]:
        window.insert(time, value)
    answers = [window.query()]
    for time, value in [(6.5, 4), (2.3, 5)]:
        window.insert(time, value)
        answers.append(window.query())
    for watermark in (7.2, 7.7):
        window.evict_through(watermark - 5)
        answers.append(window.query())
        window.check_invariants()
    assert answers == [(4, 2), (4, 3), (5, 1), (5, 1), (4, 2)]


# ---- figures 3 to 6: what each step does to shape, coins and aggregates ----

A = [
    [[1, 2], 3, [4, 5, 6]],
    7,
    [[8], 9, [10], 11, [12], 13, [14]],
    15,
    [[17], 19, [20, 21]],
]
"""A tree of three levels with MIN_ARITY 2: the middle of the root's children holds 8 to 14 (h to n)."""


def aggregates_on_spines(tree: Any) -> tuple[Any, Any, Any]:
    return tree.aggs[tree.left], tree.aggs[tree.root], tree.aggs[tree.right]


def step(shape: Any, act: Any) -> tuple[Any, int, int]:
    """A step on a FiBA of a given shape: the tree after it, coins spent, and coins billed (refunded if negative)."""
    tree = build(counting(FiBA), shape)
    before = coins(tree)
    tree.done.clear()
    act(tree)
    tree.check_invariants()
    return tree, spent(tree), spent(tree) + coins(tree) - before


def test_the_kinds_of_aggregates() -> None:
    """Figure 3(A): inner for the root, up for what is in the middle, left and right for the spines."""
    tree = build(FiBA, A)
    assert aggregates_on_spines(tree) == ("abcdef", "ghijklmno", "qstu")
    assert tree.query() == "abcdefghijklmnoqstu"


def test_an_insert_in_order_touches_the_right_finger_only() -> None:
    """Step A→B: a leaf with one entry gets a second, spent 0, refunded 1."""
    tree, paid, billed = step([[[1], 2, [3]], 4, [[5], 6, [7]]], lambda tree: tree.insert(8, "h"))
    assert (paid, billed, tree.done["fold"]) == (0, -1, 0)
    assert shape_of(tree) == [[[1], 2, [3]], 4, [[5], 6, [7, 8]]]


def test_an_insert_out_of_order_walks_to_the_finger() -> None:
    """Step B→C: into a leaf next to the right spine with two entries: spent 0, billed 2; the spine is repaired."""
    shape = [[[1], 2, [3]], 4, [[5, 7], 8, [9, 10]]]
    tree, paid, billed = step(shape, lambda tree: tree.insert(6, "f"))
    assert (paid, billed) == (0, 2)
    assert tree.done["fold"] == 2  # the leaf and its parent on the spine; the finger's own share stays
    assert aggregates_on_spines(tree) == ("abc", "d", "efghij")


def test_an_evict_in_order_touches_the_left_finger_only() -> None:
    """Step C→D: from a leaf with two entries: spent 0, billed 1."""
    tree, paid, billed = step([[[1, 2], 3, [4]], 5, [[6], 7, [8]]], lambda tree: tree.evict())
    assert (paid, billed, tree.done["fold"]) == (0, 1, 1)


def test_an_insert_that_splits() -> None:
    """Step D→E: into a full leaf in the middle: one split paid from its coins, spent 1, refunded 1."""
    shape = [[[1], 2, [3]], 4, [[5, 6, 8], 9, [10], 11, [12]]]
    tree, paid, billed = step(shape, lambda tree: tree.insert(7, "g"))
    assert (paid, tree.done["split"]) == (1, 1)
    assert shape_of(tree) == [[[1], 2, [3]], 4, [[5, 6], 7, [8], 9, [10], 11, [12]]]
    assert billed <= 2
    shape = [[[1], 2, [3]], 4, [[5, 6, 8], 9, [10]]]
    tree, paid, billed = step(shape, lambda tree: tree.insert(7, "g"))
    assert (paid, billed) == (1, -1)


def test_an_evict_that_merges() -> None:
    """Step E→F: from a leaf with one entry, whose neighbour has one as well: spent 1, billed 0."""
    shape = [[[2], 3, [4], 5, [6]], 7, [[8], 9, [10]]]
    tree, paid, billed = step(shape, lambda tree: tree.evict(2))
    assert (paid, tree.done["merge"]) == (1, 1)
    assert billed == 0
    assert shape_of(tree) == [[[3, 4], 5, [6]], 7, [[8], 9, [10]]]


def test_an_insert_that_makes_the_tree_higher() -> None:
    """Step G→H: a full leaf under a full root: split, height increase, split. Spent 2, billed 0."""
    shape = [[1, 2, 4], 5, [6], 7, [8], 9, [10]]
    tree, paid, billed = step(shape, lambda tree: tree.insert(3, "c"))
    assert (paid, tree.done["split"]) == (2, 2)
    assert billed <= 0
    assert shape_of(tree) == [[[1, 2], 3, [4], 5, [6]], 7, [[8], 9, [10]]]
    assert aggregates_on_spines(tree) == ("abcdef", "g", "hij")


def test_an_evict_that_merges_and_moves() -> None:
    """Step I→J: leaf and neighbour merge, their parent then gets a child from its own neighbour. Spent 2, billed 1."""
    shape = [[[2], 3, [4]], 5, [[6], 7, [8], 9, [10]], 11, [[12], 13, [14]]]
    tree, paid, billed = step(shape, lambda tree: tree.evict(4))
    assert (paid, tree.done["merge"], tree.done["move_back"]) == (2, 1, 1)
    assert billed == 1
    assert shape_of(tree) == [[[2, 3], 5, [6]], 7, [[8], 9, [10]], 11, [[12], 13, [14]]]


def test_an_evict_that_makes_the_tree_lower() -> None:
    """Step K→L: two merges up to the root of arity 2, which goes. Spent 2, refunded 2."""
    shape = [[[8], 9, [10]], 11, [[12], 13, [15]]]
    tree, paid, billed = step(shape, lambda tree: tree.evict(15))
    assert (paid, tree.done["merge"]) == (2, 2)
    assert shape_of(tree) == [[8], 9, [10], 11, [12, 13]]
    assert billed <= 0
    assert aggregates_on_spines(tree) == ("h", "ijk", "lm")


# ---- figure 9: evict from an inner node ----


def test_evict_from_an_inner_node_takes_the_oldest_of_a_right_child_with_one_to_spare() -> None:
    tree, paid, _ = step([[[1], 2, [3]], 4, [[5, 6], 7, [8], 9, [10]]], lambda tree: tree.evict(4))
    assert (paid, shape_of(tree)) == (0, [[[1], 2, [3]], 5, [[6], 7, [8], 9, [10]]])
    assert aggregates_on_spines(tree) == ("abc", "e", "fghij")


def test_evict_from_an_inner_node_takes_the_youngest_to_its_left_otherwise() -> None:
    tree, paid, _ = step([[[1], 2, [3, 4]], 5, [[6], 7, [8]]], lambda tree: tree.evict(5))
    assert (paid, shape_of(tree)) == (0, [[[1], 2, [3]], 4, [[6], 7, [8]]])
    assert aggregates_on_spines(tree) == ("abc", "d", "fgh")


def test_rebalancing_that_stops_below_the_inner_node() -> None:
    """The leaf's merge ends below the root; the repair continues to the root, and the spine it passed is repaired."""
    shape = [[[1], 2, [3], 4, [5]], 6, [[7], 8, [9]]]
    tree, paid, _ = step(shape, lambda tree: tree.evict(6))
    assert (paid, shape_of(tree)) == (1, [[[1], 2, [3, 4]], 5, [[7], 8, [9]]])
    assert aggregates_on_spines(tree) == ("abcd", "e", "ghi")


def test_rebalancing_that_takes_the_inner_node_away() -> None:
    """The node in which the substitute was put is merged into its left sibling and given up."""
    shape = [[[1], 2, [3]], 4, [[5], 6, [7]], 8, [[9], 10, [11]]]
    tree, paid, _ = step(shape, lambda tree: tree.evict(6))
    assert (paid, shape_of(tree)) == (2, [[[1], 2, [3], 4, [5, 7]], 8, [[9], 10, [11]]])
    assert tree.query() == "abcdeghijk"
    shape = [[[1], 2, [3]], 4, [[5], 6, [7]]]
    tree, paid, _ = step(shape, lambda tree: tree.evict(4))
    assert tree.query() == "abcefg"


# ---- a sibling on a spine, under a root of arity 2 ----


@every
@pytest.mark.parametrize("time", range(5, 8))
def test_a_merge_with_a_sibling_on_the_left_spine(structure: Any, time: int) -> None:
    tree = build(counting(structure), [[[1], 2, [3]], 4, [[5], 6, [7]]])
    tree.evict(time)
    tree.check_invariants()
    assert tree.query() == "abcdefg".replace(chr(96 + time), "")


@every
@pytest.mark.parametrize("time", range(9, 12))
def test_a_move_from_a_sibling_on_the_left_spine(structure: Any, time: int) -> None:
    """The right child of the root underflows, the left one has an entry to spare: both spines change."""
    tree = build(counting(structure), [[[1], 2, [3], 4, [5], 6, [7]], 8, [[9], 10, [11]]])
    tree.evict(time)
    tree.check_invariants()
    assert tree.done["move_on"] == 1
    assert tree.query() == "abcdefghijk".replace(chr(96 + time), "")


@every
@pytest.mark.parametrize("time", range(1, 4))
def test_a_move_from_a_sibling_on_the_right_spine(structure: Any, time: int) -> None:
    tree = build(counting(structure), [[[1], 2, [3]], 4, [[5], 6, [7], 8, [9], 10, [11]]])
    tree.evict(time)
    tree.check_invariants()
    assert tree.done["move_back"] == 1
    assert tree.query() == "abcdefghijk".replace(chr(96 + time), "")


@every
def test_leaves_under_a_root_of_arity_2(structure: Any) -> None:
    for shape, time in [([[1], 2, [3]], 3), ([[1, 2], 3, [4]], 4), ([[1], 2, [3, 4]], 1), ([[1], 2, [3]], 2)]:
        tree = build(structure, shape)
        rest = tree.query().replace(chr(96 + time), "")
        tree.evict(time)
        tree.check_invariants()
        assert tree.query() == rest


# ---- fingers, flags, the root ----


@every
def test_the_fingers_follow_the_ends(structure: Any) -> None:
    tree = structure(JOIN, 2)
    for t in [50, *range(49, 0, -1), *range(51, 100)]:
        tree.insert(t, "x")
        assert (tree.oldest, tree.youngest) == (min(50, t) if t <= 50 else 1, max(50, t))
    while len(tree) > 1:
        tree.evict(tree.youngest)
        tree.evict()
        assert tree.links[tree.left, FLAGS] & (LEFT | ROOT)
        assert tree.links[tree.right, FLAGS] & (RIGHT | ROOT)
        tree.check_invariants()


@pytest.mark.parametrize("min_arity", [2, 3, 5])
def test_equal_times_combine_in_order_of_arrival(min_arity: int) -> None:
    for structure in STRUCTURES:
        window = structure(JOIN, min_arity)
        for t, letter in zip([5, 3, 5, 3, 4, 5], "abcdef", strict=True):
            window.insert(t, letter)
        assert (len(window), window.query(), window.query(5)) == (3, "bdeacf", "acf")
        assert list(window) == [(3, "bd"), (4, "e"), (5, "acf")]
        window.evict(5)
        assert window.query() == "bde"


def test_the_two_structures_differ_in_what_a_query_takes() -> None:
    for structure, most in ((FiBA, 2), (AugmentedBTree, 0)):
        counted = OpCounter(Max())
        window = structure(counted)
        for t in range(1000):
            window.insert(t * 37 % 1009, t)
            counted.taken()
            window.query()
            assert counted.taken() <= most
