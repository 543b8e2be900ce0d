"""Arguments far beyond what fits: one line that names the argument, never an error of Python's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from tests.cli.typed import typed

DIGITS = "9" * 5000
TABLE = pa.table({"x": [1.0, 2.0, 3.0], "t": [1, 2, 3]})
BARE = ("Exceeds the limit", "too large to convert", "too big to convert", "malformed node", "out of bounds for int")

EXPRESSIONS = [
    *(
        f"x + {DIGITS}",
        f"x + {DIGITS}.5",
        f"x + 1e{DIGITS}",
        f"-{DIGITS}",
        f"round(x, {DIGITS})",
        f"substr(x, {DIGITS})",
    ),
    *(
        f"interval '{DIGITS} days'",
        "interval '99999999999 days'",
        f"interval {DIGITS} day",
        f"interval '-{DIGITS} day'",
    ),
    *(f"cast(x as decimal({DIGITS}, 2))", f"cast(x as decimal(38, {DIGITS}))", f"x > date '{DIGITS}-01-01'"),
    *("-" * 50_000 + "x", "(" * 50_000 + "x" + ")" * 50_000, "not " * 20_000 + "x", f"no_such_function('{DIGITS}')"),
]


@pytest.mark.parametrize("text", EXPRESSIONS, ids=lambda text: f"{text[:12]}…{len(text)}")
def test_expressions(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the expression ['\"]") as found:
        sash.expr(text)
    assert_one_line(str(found.value))


def test_numbers_of_64_bits_still_fit() -> None:
    assert repr(sash.expr("x + 000000000000000000000009223372036854775807")) == "expr('x + 9223372036854775807')"
    assert sash.expr("t + interval '999999999 days'")


def assert_one_line(text: str) -> None:
    assert "\n" not in text
    assert len(text) < 1300
    assert not any(one in text for one in BARE), text


NUMBERS: dict[str, Callable[[int], Any]] = {
    "n= of lag": lambda n: sash.lag("x", n=n),
    "n= of delta": lambda n: sash.delta("x", n=n),
    "n= of pct_change": lambda n: sash.pct_change("x", n=n),
    "n= of nth": lambda n: sash.nth("x", n=-n),
    "ddof= is": lambda n: sash.var("x", ddof=n),
    "k= of approx_quantile": lambda n: sash.approx_quantile("x", k=n),
    "bits= of bloom": lambda n: sash.bloom("x", bits=n),
    "q= of quantile": lambda n: sash.quantile("x", q=n),
    "alpha= of ewm_mean": lambda n: sash.ewm_mean("x", alpha=n),
    "min_periods=": lambda n: sash.Query(3, min_periods=2 * n, r=sash.max("x")),
    "size= of Count": lambda n: sash.Count(2 * n),
    "every= of Count": lambda n: sash.Count(5, every=2 * n),
    "shift= of Count": lambda n: sash.Count(5, shift=-2 * n),
    "size= of Time": lambda n: sash.rolling(TABLE, sash.Time(2 * n), on="t", r=sash.max("x")),
    "offset= of Time": lambda n: sash.rolling(TABLE, sash.Time(9, every=3, offset=2 * n), on="t", r=sash.max("x")),
    "gap= of Session": lambda n: sash.rolling(TABLE, sash.Session(2 * n), on="t", r=sash.max("x")),
    "size= of Delta": lambda n: sash.rolling(TABLE, sash.Delta("t", 2 * n), on="t", r=sash.max("x")),
    "lateness=": lambda n: [*sash.Query(3, on="t", lateness=2 * n, r=sash.max("x")).run(iter(TABLE.to_batches()))],
}
"""What an argument that is too large is called, and how it is given."""


@pytest.mark.parametrize("what", NUMBERS)
@pytest.mark.parametrize("value", [2**62, 10**30, 10**5000], ids=["62 bits", "100 bits", "5000 digits"])
def test_numbers(what: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{what}") as found:
        NUMBERS[what](value)
    assert_one_line(str(found.value))


@pytest.mark.parametrize("name", ["halflife", "span", "com"])
def test_half_lives(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}= of ewm_mean"):
        sash.ewm_mean("x", **{name: 10**5000})
    assert sash.rolling(TABLE, 3, r=sash.ewm_mean("x", **{name: 10**300}))


def test_formulas() -> None:
    with pytest.raises(ValueError, match=r"^a whole number of 16610 bits does not fit 64 bits$"):
        sash.sum("x") * 10**5000


@pytest.mark.parametrize("text", [f"{DIGITS}d", f"0.{DIGITS}s", f"PT{DIGITS}H", f"-{DIGITS}mo", "-" * 50_000 + "1h"])
def test_durations(text: str) -> None:
    for make in (sash.Time, sash.Session, lambda one: sash.Query("1h", on="t", lateness=one, r=sash.max("x"))):
        with pytest.raises(ValueError, match=r"^\w+= ") as found:
            make(text)
        assert_one_line(str(found.value))
    with pytest.raises(ValueError, match="halflife= of ") as found:
        sash.Query("1h", on="t", r=sash.ewm_mean("x", halflife=text))
    assert_one_line(str(found.value))
    with pytest.raises(ValueError, match="memory= of Options") as found:
        sash.Options(memory=text.rstrip("dsHmo"))
    assert_one_line(str(found.value))


JOB = """\
[source]
kind = "parquet"
path = "rows.parquet"
[query]
windows = "{window}"
on = "t"
[query.aggregates]
high = "max(x)"
[sink]
kind = "console"
"""


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("Time(" + "-" * 50_000 + "1)", "is not a window: write one such as"),
        ("Time(" * 50_000 + "1)", "is not a window: write one such as"),
        ("Time(" + "-" * 500 + "1)", "is not a"),
        ("Time(10**9)", "10 ** 9 is computed: write the number or the duration itself, such as 3600 or '1h'"),
        ("Time(1 + 2)", "1 + 2 is computed"),
        ("Time(x)", "x is computed"),
        (f"Time({DIGITS})", "is not a window"),
        ("Count(99999999999999999999)", "size= of Count must be at most 9223372036854775807"),
    ],
    ids=range(8),
)
def test_windows_of_jobs(window: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "rows.parquet")
    Path("job.toml").write_text(JOB.format(window=window))
    done = typed("run", "job.toml")
    assert done.code == 2
    assert done.err.startswith("sash: job.toml:5: ")
    assert message in done.err
    assert_one_line(done.err.rstrip("\n"))
