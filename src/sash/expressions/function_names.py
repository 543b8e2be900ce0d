"""The operators and functions of expressions: their names, and how many operands they take."""

from __future__ import annotations

FUNCTIONS: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("abs", "floor", "ceil", "sqrt", "exp", "ln", "log2", "log10", "sign"), (1, 1)),
    "round": (1, 2),
    **dict.fromkeys(("power", "log"), (2, 2)),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), (1, 1)),
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim", "length"), (1, 1)),
    "substr": (2, 3),
    "starts_with": (2, 2),
    "concat": (1, None),
    **dict.fromkeys(("coalesce", "greatest", "least"), (1, None)),
    "nullif": (2, 2),
    **dict.fromkeys(("year", "quarter", "month", "day", "dow", "hour", "minute", "second", "epoch"), (1, 1)),
}
"""The functions by name, with the least and the greatest number of operands (None: any number)."""

ALIASES = {
    "ceiling": "ceil",
    "pow": "power",
    "substring": "substr",
    "len": "length",
    "ifnull": "coalesce",
    "dayofweek": "dow",
    "dayofmonth": "day",
    "is_nan": "isnan",
    "is_finite": "isfinite",
    "is_inf": "isinf",
    "day_of_week": "dow",
    "day_of_month": "day",
    "time_to_unix": "epoch",
    "starts_with": "starts_with",
}
"""Other names of functions."""

SUPPORTED = ", ".join(sorted(FUNCTIONS))
"""All functions, for messages."""
