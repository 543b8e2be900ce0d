"""The running example of the DABA report (figures 1, 3, 9 and 15): one window, nine states, a maximum in each.

    (a)  2 6 3 5 3              (d)      3 5 3 1            (g)          5 3 1 0 2
    (b)    6 3 5 3              (e)      3 5 3 1 0          (h)            3 1 0 2
    (c)    6 3 5 3 1            (f)        5 3 1 0          (i)            3 1 0 2 4

The text gives (a) to (c) and the turns; what is inserted after 1 is ours. The two elements of no account that come
and go first put the pointers where the figures have them.
"""

import pytest

from sash.aggregators import ABA, DABA, DABALite, InOrder, TwoStacks, TwoStacksLite
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids.extremes import Max
from sash.monoids.op_counter import OpCounter
from tests.conformance.machines import admits

STATES = {
    "a": [2, 6, 3, 5, 3],
    "b": [6, 3, 5, 3],
    "c": [6, 3, 5, 3, 1],
    "d": [3, 5, 3, 1],
    "e": [3, 5, 3, 1, 0],
    "f": [5, 3, 1, 0],
    "g": [5, 3, 1, 0, 2],
    "h": [3, 1, 0, 2],
    "i": [3, 1, 0, 2, 4],
}
MAXIMA = {"a": 6, "b": 6, "c": 6, "d": 5, "e": 5, "f": 5, "g": 5, "h": 3, "i": 4}
INSERTED = {"c": 1, "e": 0, "g": 2, "i": 4}


def start(window: InOrder) -> None:
    """State (a). The stacks turn over at the first evict, so 2 and 6 are their front; DABA turns on its own."""
    early = (3, 5, 3) if isinstance(window, DABA | DABALite) else ()
    late = () if early else (3, 5, 3)
    for x in (0, 0, 2, 6, *early):
        window.insert(x)
    window.evict()
    window.evict()
    for x in late:
        window.insert(x)


def step(window: InOrder, state: str) -> None:
    """Apply a step to the previous state."""
    if state in INSERTED:
        window.insert(INSERTED[state])
    elif state != "a":
        window.evict()


@pytest.mark.parametrize("name", [name for name, record in IN_ORDER.items() if admits(record.cls, Max())])
def test_the_maximum_of_each_state(name: str) -> None:
    window = IN_ORDER[name].cls(Max())
    start(window)
    for state, values in STATES.items():
        step(window, state)
        window.check_invariants()
        assert (len(window), window.query()) == (len(values), MAXIMA[state]), state
        if window.keeps_elements:
            assert list(window) == values, state


@pytest.mark.parametrize("structure", [TwoStacks, TwoStacksLite, ABA])
def test_the_stacks_turn_over_between_e_and_f_and_nowhere_else(
    structure: type[TwoStacks | TwoStacksLite | ABA], monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = []
    flip = structure.flip
    window = structure(Max())
    start(window)
    for state in STATES:
        monkeypatch.setattr(structure, "flip", lambda window, state=state: (turned.append(state), flip(window)))
        step(window, state)
    assert turned == ["f"]


ABA_AGGREGATES = {
    "a": ([6, 6], [3, 5, 5]),
    "b": ([6], [3, 5, 5]),
    "c": ([6], [3, 5, 5, 5]),
    "d": ([], [3, 5, 5, 5]),
    "e": ([], [3, 5, 5, 5, 5]),
    "f": ([5, 3, 1, 0], []),  # after 5 5 3 1 0
    "g": ([5, 3, 1, 0], [2]),
    "h": ([3, 1, 0], [2]),
    "i": ([3, 1, 0], [2, 4]),
}


def test_the_aggregates_of_aba() -> None:
    counted = OpCounter(Max())
    window = ABA(counted)
    start(window)
    for state, (front, back) in ABA_AGGREGATES.items():
        counted.taken()
        step(window, state)
        assert counted.taken() == {"a": 0, "f": 4}.get(state, int(state in INSERTED)), state
        assert [window.aggs[i] for i in range(window.F, window.B)] == front, state
        assert [window.aggs[i] for i in range(window.B, window.E)] == back, state


DABA_POINTERS = {  # F, L, R, A, B, E
    "a": (2, 3, 4, 5, 7, 7),
    "b": (3, 4, 4, 4, 7, 7),  # a shrink
    "c": (3, 5, 5, 5, 7, 8),  # a free ride
    "d": (4, 6, 6, 6, 7, 8),  # a free ride
    "e": (4, 7, 7, 7, 7, 9),  # a free ride
    "f": (5, 6, 7, 8, 9, 9),  # a flip and a shrink
    "g": (5, 7, 7, 7, 9, 10),  # a shrink
    "h": (6, 8, 8, 8, 9, 10),  # a free ride
    "i": (6, 9, 9, 9, 9, 11),  # a free ride
}


@pytest.mark.parametrize("structure", [DABA, DABALite])
def test_the_pointers_of_daba(structure: type[DABA | DABALite]) -> None:
    window = structure(Max())
    start(window)
    for state, pointers in DABA_POINTERS.items():
        step(window, state)
        assert pointers == (window.F, window.L, window.R, window.A, window.B, window.E), state


DABA_LITE_SLOTS = {  # the slots; `right` where it is in use; `back`; ⊕ taken
    "a": ([6, 6, 3, 5, 3], 5, None, 0),
    "b": ([6, 5, 5, 3], ..., None, 2),
    "c": ([6, 5, 5, 3, 1], ..., 1, 1),
    "d": ([5, 5, 3, 1], ..., 1, 0),
    "e": ([5, 5, 3, 1, 0], ..., 1, 1),
    "f": ([5, 3, 1, 0], 1, None, 1),
    "g": ([5, 3, 1, 0, 2], ..., 2, 3),
    "h": ([3, 1, 0, 2], ..., 2, 0),
    "i": ([3, 1, 0, 2, 4], ..., 4, 1),
}


def test_the_slots_of_daba_lite() -> None:
    counted = OpCounter(Max())
    window = DABALite(counted)
    start(window)
    for state, (slots, right, back, cost) in DABA_LITE_SLOTS.items():
        counted.taken()
        step(window, state)
        assert counted.taken() == cost, state
        assert [window.deque[i] for i in range(window.F, window.E)] == slots, state
        assert window.back == back, state
        assert (right is ...) == (window.L == window.R), state
        if right is not ...:
            assert window.right == right, state
