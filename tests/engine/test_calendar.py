"""Calendar windows: the operator against the reference, over every combination of calendar and fixed lengths."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
import sash.engine as engine
from sash.windows import Count, Lifetime, Time
from tests.engine.differential import duel
from tests.shared.queries import Scale
from tests.shared.streams import calls

NEW_YORK = "America/New_York"
SCALES = [
    Scale(pa.timestamp("s", NEW_YORK), 25_200, "h", 1_699_000_000),  # the clock goes back on 2023-11-05
    Scale(pa.timestamp("ms"), 13 * 3600 * 1000, "h", 1_709_200_000 * 1000),  # Feb 29, then forward on 2024-03-10
    Scale(pa.date32(), 1, "d", 19_780),
]
"""Ticks of 7 hours, of 13 hours, and of a day."""

PER_ROW = {
    "months": Time("1mo"),
    "months, left": Time("1mo", closed="left"),
    "local days": Time("3d", tz=NEW_YORK),
    "local days, both": Time("1d", closed="both", tz=NEW_YORK),
    "a local quarter, neither": Time("1q", closed="neither", tz=NEW_YORK),
    "several": {"m": Time("1mo", tz=NEW_YORK), "w": Time("1w", tz=NEW_YORK), "h": Time("48h"), "c": Count(3)},
}
PER_SLIDE = {
    "months": Time("1mo", every="1mo"),
    "hopping months": Time("3mo", every="1mo", tz=NEW_YORK),
    "local days": Time("1d", every="1d", tz=NEW_YORK),
    "local days, right": Time("2d", every="1d", closed="right", tz=NEW_YORK),
    "weeks": Time("1w", every="1w", tz=NEW_YORK),
    "shifted days": Time("1d", every="1d", offset="1d", tz=NEW_YORK),
    "fiscal years": Time("1y", every="1y", offset="3mo"),
    "shifted months": Time("1mo", every="1mo", offset="-5d", tz=NEW_YORK),
    "a month every day": Time("1mo", every="1d"),
    "a month every local day": Time("1mo", every="1d", tz=NEW_YORK),
    "a month every two days, right": Time("1mo", every="48h", closed="right"),
    "a fixed size every month": Time("48h", every="1mo"),
    "gaps": Time("1d", every="1mo", tz=NEW_YORK),
    "every third row": Time("1mo", every=3),
    "rows every month": Count(3, every="1mo"),
    "rows every local day": Count(3, every=Time("1d", tz=NEW_YORK)),
    "all, every local week": Lifetime(every=Time("1w", tz=NEW_YORK)),
    "several": {
        "d": Time("1d", every="1d", tz=NEW_YORK),
        "m": Time("1mo", every="1mo", tz=NEW_YORK),
        "x": Time("2d", every="48h"),
    },
}
WINDOWS = {f"row: {name}": one for name, one in PER_ROW.items()} | {f"slide: {n}": one for n, one in PER_SLIDE.items()}


def begin(query: sash.Query, schema: pa.Schema, mode: str) -> Any:
    return query.operator(schema, mode=mode)


def resume(query: sash.Query, snapshot: bytes) -> Any:
    return engine.Operator.restore(query, snapshot)


@pytest.fixture(autouse=True)
def _interpreted(interpreted_trees: Any, kernels: Any) -> None:
    """As in `test_differential_queries`."""


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_the_operator_gives_what_the_reference_gives(window: Any) -> None:
    shown = {"held": sash.collect("i"), "rows": sash.count(), "total": sash.sum("f"), "high": sash.max("x")}

    @settings(max_examples=max(5, settings().max_examples // 4))
    @given(st.data())
    def agrees(data: st.DataObject) -> None:
        scale = data.draw(st.sampled_from(SCALES), "scale")
        emit = data.draw(st.sampled_from(["final", "final", "changes", "eager"]), "emit")
        mode = data.draw(st.sampled_from(["rows", "given"] + ["sorted"] * (emit != "eager")), "mode")
        lateness = f"{data.draw(st.integers(0, 6), 'lateness')}d"
        forget = data.draw(st.sampled_from([None, None, "9d"]), "forget")
        query = sash.Query(window, by="k", on="t", lateness=lateness, emit=emit, forget=forget, **shown)
        duel(data.draw(calls(query, scale, mode), "case"), begin, resume)

    agrees()
