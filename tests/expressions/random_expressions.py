"""Random expressions over fixed columns, typed so that they have a meaning."""

from __future__ import annotations

import datetime
import random

import pyarrow as pa

NUMBERS = ("i", "j", "x", "y")
DAY = datetime.datetime(2024, 2, 27, 22, 30, 15)


def table(seed: int, rows: int = 40) -> pa.RecordBatch:
    """Rows with nulls in every column: small integers, floats in eighths, texts, booleans, times."""
    rng = random.Random(seed)

    def column(make: object, kind: str) -> pa.Array:
        return pa.array([None if rng.random() < 0.15 else make() for _ in range(rows)], pa.type_for_alias(kind))  # type: ignore[operator]

    return pa.record_batch(
        {
            "i": column(lambda: rng.randint(-5, 5), "int64"),
            "j": column(lambda: rng.randint(-100, 100), "int32"),
            "x": column(lambda: rng.randint(-40, 40) / 8, "float64"),
            "y": column(lambda: rng.randint(-4000, 4000) / 64, "float64"),
            "s": column(lambda: rng.choice(["", "abc", " Abc ", "xyz", "a_c", "ABC%"]), "string"),
            "r": column(lambda: rng.choice(["abc", "b", "Zz"]), "string"),
            "b": column(lambda: rng.random() < 0.5, "bool"),
            "t": column(lambda: DAY + datetime.timedelta(minutes=rng.randint(-3000, 3000)), "timestamp[us]"),
            "d": column(lambda: DAY.date() + datetime.timedelta(days=rng.randint(-3, 3)), "date32"),
        }
    )


class Drawn:
    """Draws expressions as text."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def any(self, depth: int = 3) -> str:
        """An expression of any type."""
        return self.rng.choice([self.number, self.number, self.condition, self.text])(depth)

    def number(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            return rng.choice([*NUMBERS, *NUMBERS, "2", "-3", "1.5", "null::double"])
        a, b = self.number(depth - 1), self.number(depth - 1)
        return rng.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / nullif({b}, 0))", f"(-{a})", f"abs({a})",
                f"sign({a})", f"greatest({a}, {b})", f"least({a}, {b})", f"coalesce({a}, {b}, 7)",
                f"nullif({a}, {b})", f"case when {self.condition(depth - 1)} then {a} else {b} end",
                f"case {self.choice()} when 1 then {a} when 2 then {b} end", f"floor({a})", f"ceil({a})",
                f"round(x, {rng.randint(0, 3)})", f"round(j, {rng.randint(-2, 1)})", "round(x)", "(i // 3)", "(j % 7)",
                "(x % 0.75)", f"sqrt(abs({a}))", f"power(x, {rng.randint(0, 3)})", "exp(x)", "ln(abs(y) + 1)",
                "log2(abs(y) + 1)", "log10(abs(y) + 1)", "log(3, abs(y) + 1)", f"cast({a} as double)",
                "cast(j as bigint)", "cast(x as bigint)",
                f"length({self.text(depth - 1)})", self.part(), "cast(cast(i as varchar) as bigint)", "epoch(t)",
            ]
        )  # fmt: skip

    def choice(self) -> str:
        return self.rng.choice(["i", "j", "length(s)"])

    def part(self) -> str:
        part = self.rng.choice(["year", "quarter", "month", "day", "dow", "hour", "minute", "second"])
        return self.rng.choice([f"extract({part} from t)", f"date_part('{part}', t)"])

    def condition(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            return rng.choice(["b", "i > 0", "x < y", "s = r", "true", "b is null"])
        p, q = self.condition(depth - 1), self.condition(depth - 1)
        a, b = self.number(depth - 1), self.number(depth - 1)
        compared = rng.choice(["=", "<>", "<", "<=", ">", ">=", "!="])
        return rng.choice(
            [
                f"({p} and {q})", f"({p} or {q})", f"(not {p})", f"({a} {compared} {b})", f"({a} is not null)",
                f"({a} between {b} and 3)", f"(i in (1, 2, {a}))", f"(s not in ('abc', 'x', {self.text(depth - 1)}))",
                f"({self.text(depth - 1)} {compared} {self.text(depth - 1)})", f"({p} is true)", f"({p} is not false)",
                f"(s like '{rng.choice(['a%', '%b%', 'a_c', '_', '%'])}')", "(s not ilike '%B%')",
                "(t > timestamp '2024-02-28')", f"(t {compared} '2024-02-28 03:00:00')", "(d = date '2024-02-28')",
                "(t - interval '1 day' < timestamp '2024-02-27 22:00:00')", "(t >= d)", "starts_with(s, 'a')",
                "isnan(x)", "isfinite(y)", f"case when {p} then {q} end",
            ]
        )  # fmt: skip

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self.rng.choice(["s", "r", "'it''s'", "''"])
        a, b = self.text(depth - 1), self.text(depth - 1)
        return self.rng.choice(
            [
                f"upper({a})", f"lower({a})", f"trim({a})", f"ltrim({a})", f"rtrim({a})", f"substr({a}, 2, 2)",
                f"substr({a}, 2)", f"({a} || {b})", f"concat({a}, {b})", f"coalesce({a}, {b})", f"nullif({a}, {b})",
                f"greatest({a}, {b})", f"case when {self.condition(depth - 1)} then {a} else {b} end",
                "cast(i as varchar)",
            ]
        )  # fmt: skip
