"""sash.Window: what is refused when it is made, its structures, copies, and accidents."""

import copy
import pickle

import pytest
from hypothesis import example, given, settings

import sash
from sash.aggregators.catalogue import IN_ORDER
from sash.plan.planner import choose
from tests.plan.event_windows import AGGREGATES, START, prefer, streams
from tests.shared.discovery import monoids

# ---- what is refused when it is made ----


@pytest.mark.parametrize(
    "window",
    [
        sash.Count(10, every=5),
        sash.Time("1h", every="1m"),
        sash.Time("1h", every=10),
        sash.Session("1h", every="close"),
        sash.Punctuation("end", every="close"),
        sash.Lifetime(every=10),
    ],
)
def test_every_is_refused(window):
    with pytest.raises(ValueError, match=r"every=.*a Window gives a result at each event.*sash\.Query"):
        sash.Window(window, sash.count())


def test_what_is_no_window():
    with pytest.raises(TypeError, match=r"the window must be a window such as sash\.Time\('1h'\)"):
        sash.Window(1.5, sash.count())
    with pytest.raises(TypeError, match=r"sash\.Window takes one window"):
        sash.Window({"a": 5}, sash.count())
    with pytest.raises(ValueError, match="at least 1"):
        sash.Window(0, sash.count())
    with pytest.raises(ValueError, match="above zero"):
        sash.Window("0s", sash.count())


def test_what_is_no_aggregate():
    with pytest.raises(TypeError, match="a Window needs an aggregate"):
        sash.Window(5)
    with pytest.raises(TypeError, match=r"give one aggregate, or several by name, not both: count\(\) and high="):
        sash.Window(5, sash.count(), high=sash.max("x"))
    with pytest.raises(TypeError, match=r"high= must be a monoid such as .*got 'x', a str"):
        sash.Window(5, high="x")
    with pytest.raises(TypeError, match=r"the aggregate of a Window must be a monoid .*got <class"):
        sash.Window(5, sash.monoids.Max)
    for name in ("prefer", "structure", "options"):
        with pytest.raises(TypeError, match=f"an aggregate cannot be named '{name}'"):
            sash.Window(5, **{name: sash.max("x")})


def test_sketches_serve_windows_that_are_folded():
    pytest.importorskip("datasketches")
    with pytest.raises(ValueError, match=r"keeps a sketch, and Count\(5\) would need one for each event"):
        sash.Window(5, sash.approx_distinct("x"))
    loop = sash.Window(sash.Lifetime(), sash.approx_distinct("x"))
    assert [round(loop.push({"x": x})) for x in "aab"] == [1, 1, 2]


# ---- structures ----


def test_which_structure():
    both = {"total": sash.sum("x"), "high": sash.max("x")}
    assert sash.Window(5, **both).structures == {"total": "SubtractOnEvict", "high": "TwoStacksLite"}
    assert sash.Window(5, **both, prefer="latency").structures == {"total": "SubtractOnEvict", "high": "DABALite"}
    assert sash.Window(5, **both, structure="FlatFAT").structures == {"total": "FlatFAT", "high": "FlatFAT"}
    assert sash.Window(5, sash.max("x"), structure=sash.aggregators.DABA).structures == {"": "DABA"}
    assert sash.Window(sash.Lifetime(), **both).structures == dict.fromkeys(both, "running fold")
    rough = sash.monoid(identity=0.0, combine=lambda a, b: a + b, inverse=lambda a, b: a - b)
    assert sash.Window(5, rough).structures == {"": "TwoStacksLite"}, "an inverse that is not exact would drift"


def test_latency_means_constant_cost():
    chosen = {choose(monoid, "latency").structure for monoid in monoids().values()}
    assert chosen == {"SubtractOnEvict", "DABALite"}
    assert all(IN_ORDER[name].constant for name in chosen)
    with pytest.raises(ValueError, match=r"structure='TwoStacks' has steps that are not of constant cost"):
        sash.Window(5, sash.max("x"), prefer="latency", structure="TwoStacks")


def test_options():
    with pytest.raises(TypeError, match=r"options= must be a sash\.Options\(…\); got 'side', a str"):
        sash.Window(5, sash.max("x"), options="side")
    with pytest.raises(ValueError, match=r"store= of Options is not supported by a Window, whose state is in memory"):
        sash.Window(5, sash.max("x"), options=sash.Options(store=sash.stores.MemoryStore()))
    for options, structure in (
        (sash.Options(prefer="latency"), "DABALite"),
        (sash.Options(structure="FlatFAT"), "FlatFAT"),
        (sash.Options(threads=2), "TwoStacksLite"),
    ):
        assert sash.Window(5, sash.max("x"), options=options).structures == {"": structure}
    given = sash.Window(5, sash.max("x"), structure="ABA", options=sash.Options(structure="FlatFAT"))
    assert given.structures == {"": "ABA"}, "what is given to the Window itself counts"


def test_structures_that_do_not_fit():
    with pytest.raises(TypeError, match="SubtractOnEvict needs a monoid with the property 'inverse', which Max"):
        sash.Window(5, sash.max("x"), structure="SubtractOnEvict")
    with pytest.raises(TypeError, match="SlickDequeNonInv needs a monoid with the property 'selective'"):
        sash.Window(sash.Lifetime(), sash.sum("x"), structure="SlickDequeNonInv")
    with pytest.raises(ValueError, match=r"structure= must be one of Recalc, .*; got 'Tree'"):
        sash.Window(5, sash.max("x"), structure="Tree")
    with pytest.raises(ValueError, match="prefer= must be 'throughput' or 'latency'; got 'speed'"):
        sash.Window(5, sash.max("x"), prefer="speed")


# ---- copies, and accidents ----


def more_than_three(total, prefix):
    return total - prefix >= 3


WINDOWS = [
    sash.Count(3),
    sash.Time(5),
    sash.Time(5, closed="left"),
    sash.Delta("at", 4),
    sash.Session(3),
    sash.Punctuation("end"),
    sash.Lifetime(),
    sash.Policy(more_than_three, over=sash.count()),
]


def pickled(window):
    return pickle.loads(pickle.dumps(window))


@pytest.mark.parametrize("twice", [copy.copy, copy.deepcopy, lambda loop: loop.copy(), pickled])
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@given(events=streams(), preferred=prefer)
@settings(max_examples=10)
@example(events=[{"i": i, "x": i, "t": i, "at": i, "end": False} for i in range(20)], preferred="latency")
def test_a_copy_goes_its_own_way(window, twice, events, preferred):
    loop = sash.Window(window, **AGGREGATES, prefer=preferred)
    half = len(events) // 2
    for event in events[:half]:
        loop.push(event, event["t"])
    twin = twice(loop)
    before = loop.query()
    later = [twin.push(event, event["t"]) for event in events[half:]]
    assert loop.query() == before
    assert [loop.push(event, event["t"]) for event in events[half:]] == later
    assert len(loop) == len(twin)


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_clear(window):
    loop = sash.Window(window, **AGGREGATES)
    event = {"i": 0, "x": 5, "at": 100, "end": True}
    loop.push(event, 1000)
    loop.clear()
    assert loop.query() == {name: bound.monoid.empty for name, bound in AGGREGATES.items()}
    assert len(loop) == 0
    loop.push(event | {"at": 1}, 1)
    assert loop.advance(2)["n"] == 1, "neither the time nor the column is remembered"


def test_a_combine_that_raises_leaves_no_wrong_answers():
    def careful(a, b):
        if a == 13 or b == 13:
            raise RuntimeError("bad luck")
        return a + b

    loop = sash.Window(2, total=sash.monoid(identity=0, combine=careful), high=sash.monoids.Max())
    loop.push(1)
    with pytest.raises(RuntimeError, match=r"^bad luck$"):
        loop.push(13)
    for step in (lambda: loop.push(1), loop.query, lambda: loop.advance(5)):
        with pytest.raises(RuntimeError, match=r"incomplete: a change raised RuntimeError: bad luck\. Call clear"):
            step()
    loop.clear()
    assert loop.push(1) == {"total": 1, "high": 1}


def test_a_lift_that_raises_changes_nothing():
    loop = sash.Window(2, high=sash.monoids.Max(), inverse=sash.monoid(identity=0, lift=lambda x: 1 / x, combine=max))
    loop.push(2)
    with pytest.raises(ZeroDivisionError):
        loop.push(0)
    assert loop.query() == {"high": 2, "inverse": 0.5}
    assert loop.push(4) == {"high": 4, "inverse": 0.5}


def test_a_policy_that_raises():
    loop = sash.Window(sash.Policy(lambda total, _prefix: 1 / (total - 2) > 5, over=sash.count()), sash.count())
    loop.push({})
    with pytest.raises(ZeroDivisionError):
        loop.push({})
    with pytest.raises(RuntimeError, match="incomplete"):
        loop.query()


def test_repr():
    loop = sash.Window("1h", high=sash.max("price"))
    assert repr(loop) == "<Window(Time('1h'), high=max('price')): 0 events>"
    loop.push({"price": 1}, START)
    assert repr(loop) == "<Window(Time('1h'), high=max('price')): 1 event>"
    assert repr(sash.Window(3, sash.monoids.Sum())) == "<Window(Count(3), Sum()): 0 events>"
    assert loop, "an empty window is a window still"


def test_memory_follows_the_window():
    loop = sash.Window(sash.Time(10), sash.monoids.Max())
    for t in range(5_000):
        loop.push(t, t)
    assert len(loop) == 10
    assert len(loop._evictor.values) == 10


# ---- what fails, set aside ----


def unlucky(x):
    if x == 13:
        raise ValueError("unlucky")
    return x


SIDE = sash.Options(failed="side")

UNLUCKY = sash.monoid(identity=0, lift=unlucky, combine=lambda a, b: a + b, lower=lambda a: 12 // (a - 5))


def test_an_event_that_fails_is_skipped_and_a_result_that_fails_is_none():
    window = sash.Window(2, UNLUCKY, options=SIDE)
    assert [window.push(x) for x in (1, 13, 4, 2)] == [-3, None, None, 12]
    assert (window.failed, window.failed_results) == (1, 1)
    assert window.last_failure == "the aggregate failed with ZeroDivisionError: integer division or modulo by zero"
    assert len(window) == 2
    named = sash.Window(sash.Time(5), s=UNLUCKY("x"), n=sash.count(), e=sash.sum(sash.expr("y * 4")), options=SIDE)
    assert named.push({"x": 13, "y": 1}, 3) == {"s": None, "n": None, "e": None}
    assert named.push({"x": 1, "y": 2**62}, 2) == {"s": None, "n": None, "e": None}
    assert named.push({"x": 1, "y": 1}, 1) == {"s": -3, "n": 1, "e": 4}
    assert named.failed == 2
    with pytest.raises(KeyError, match="reads the column 'y'"):
        named.push({"x": 1}, 2)
    with pytest.raises(ValueError, match="unlucky"):
        sash.Window(2, UNLUCKY).push(13)


def test_failed_is_a_name_for_an_aggregate():
    window = sash.Window(2, failed=sash.count(where="status = 'fail'"), options=SIDE)
    assert [window.push({"status": status}) for status in ("fail", "ok", "ok")] == [
        {"failed": 1},
        {"failed": 1},
        {"failed": 0},
    ]
    assert window.failed == 0


def test_a_formula_that_overflows_is_none():
    window = sash.Window(1, p=sash.sum("x") * sash.sum("x"), options=SIDE)
    assert [window.push({"x": x})["p"] for x in (2**40, 3)] == [None, 9]
    assert window.failed_results == 1
    assert "the aggregate 'p' failed with ValueError" in window.last_failure
