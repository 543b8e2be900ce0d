"""Write the reference pages from the code; run by `make format`, checked by tests/test_generated_pages.py.

docs/reference/aggregates.md    each function: its signature, its docstring, and the structures that the planner chooses
docs/reference/windows.md       each window: its signature and its docstring
docs/reference/modules.md       each package: its docstring, and the first line of each module
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import sash
from sash.aggregators.catalogue import CATALOGUE
from sash.monoids import functions
from sash.plan.query import Query

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

GROUPS = {
    "Counts, sums and means": "count sum product mean geometric_mean weighted_mean sum_of_squares",
    "Least and greatest": "min max range arg_min arg_max min_count max_count",
    "By place": "first last nth lag delta pct_change",
    "Order statistics": "median quantile rank percent_rank mode count_distinct",
    "Spread and shape": "var std skewness kurtosis",
    "Two columns": "covariance correlation slope intercept",
    "Exponential weights": "ewm_mean ewm_var ewm_std",
    "Collections and text": "collect collect_distinct concat",
    "Flags and bits": "any all bit_and bit_or bit_xor longest_run",
    "Charts": "m4",
    "Sketches": "approx_distinct approx_quantile frequent_items count_min bloom",
}
TYPES = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "decimal(10, 2)": pa.decimal128(10, 2),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"),
    "duration": pa.duration("us"),
}
"""Types of inputs, and how the page names them."""

ARGUMENTS = {"q": 0.5, "halflife": 2, "items": (1, 2), "n": 1}
"""Arguments for parameters without which an aggregate cannot be planned."""

WINDOWS = (sash.Count, sash.Time, sash.Session, sash.Delta, sash.Punctuation, sash.Lifetime, sash.Policy)


def aggregates_page() -> str:
    """The page of all aggregates. Raises ValueError if one is in no group."""
    named = [name for names in GROUPS.values() for name in names.split()]
    if sorted(named) != sorted(functions.AGGREGATES):
        raise ValueError(f"GROUPS lacks or repeats {sorted({*functions.AGGREGATES} ^ {*named}) or named}")
    lines = [
        "# Aggregates",
        "",
        "Every aggregate takes columns by name, or expressions (`sash.expr`), and `where=`. `.over(window)` gives it a",
        "window of its own, `min_periods=` of the query hides results of few inputs, and `+ - * /` combine aggregates.",
        "[numbers.md](../numbers.md) describes how nulls, NaN, overflow and ties are treated,",
        "[monoids.md](../monoids.md) how to write your own aggregate.",
        "",
        "| group | aggregates |",
        "|---|---|",
    ]
    for group, names in GROUPS.items():
        lines.append(f"| {group} | {' '.join(f'[`{name}`](#{name})' for name in names.split())} |")
    for group, names in GROUPS.items():
        lines += ["", f"## {group}"]
        for name in names.split():
            lines += ["", *_aggregate(name)]
    return "\n".join(lines) + "\n"


def _aggregate(name: str) -> Iterable[str]:
    function = getattr(functions, name)
    yield f"### {name}"
    yield ""
    yield from _described(f"sash.{name}", function)
    yield ""
    yield "| | |"
    yield "|---|---|"
    results = _results(function)
    if _bound(function)[1]:
        yield f"| inputs | {', '.join(label for _, label in results)} |"
    yield f"| result | {_grouped(results)} |"
    yield f"| properties | {', '.join(_properties(_bound(function)[0].monoid)) or '–'} |"
    yield f"| structure in an operator | {_grouped(_structures(function))} |"


def _described(name: str, thing: Any) -> Iterable[str]:
    """The signature and the docstring."""
    signature = inspect.signature(thing)
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    yield f"`{name}{signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)}`"
    yield ""
    yield from as_markdown(inspect.getdoc(thing) or "", signature.parameters)


def as_markdown(text: str, parameters: Container[str]) -> Iterable[str]:
    """A docstring with its examples as code, and its parameters as a list."""
    is_code = False
    for line in text.splitlines():
        if line.startswith(">>>") and not is_code:
            yield "```python"
            is_code = True
        elif is_code and not line:
            yield "```"
            is_code = False
        item = re.match(r"([a-z_]+)(?:, [a-z_]+)*: ", line)
        if item and item[1] in parameters:
            yield f"- `{item[0][:-2]}`: {line[item.end() :]}"
        else:
            yield line if is_code else line.replace("<", "&lt;")
    if is_code:
        yield "```"


def _bound(function: Callable[..., Any]) -> tuple[Any, list[str]]:
    """The aggregate bound to columns named as its parameters, and their names."""
    parameters = inspect.signature(function).parameters.values()
    columns = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]
    given = {one.name: ARGUMENTS[one.name] for one in parameters if one.name in ARGUMENTS}
    return function(*columns, **given), columns


KINDS = {"": sash.Count(1000), ", with `every=` only": sash.Count(1000, every=10)}
"""The windows that are tried: at each row, else with slides."""


def _results(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """The type of the result, by the type of the inputs."""
    found = [
        (plan.bound_query.aggregates[0].result, where, label, kind)
        for label, kind in TYPES.items()
        for plan, where in _planned(function, kind)
    ]
    if all(result == kind for result, _, _, kind in found):
        return [("the type of the input", label) for _, _, label, _ in found]
    return [(f"`{result}`{where}", label) for result, where, label, _ in found]


def _planned(function: Callable[..., Any], kind: pa.DataType) -> Iterable[tuple[Any, str]]:
    """The plan of a window with columns of this type, and a remark on the window; none if they do not fit."""
    aggregate, columns = _bound(function)
    schema = pa.schema([(name, kind) for name in columns])
    for where, window in KINDS.items():
        try:
            yield Query(window, out=aggregate).plan(schema), where
        except (TypeError, ValueError):
            continue
        return


def _properties(monoid: Any) -> Iterable[str]:
    """The properties that an aggregate declares, besides associativity."""
    for name in ("commutative", "selective"):
        if getattr(monoid, name):
            yield name
    if monoid.inverse is not None:
        yield "invertible"


def _structures(function: Callable[..., Any]) -> Iterable[tuple[str, str]]:
    """The structure that the planner chooses for windows of rows, by the type of the inputs."""
    for label, kind in TYPES.items():
        for plan, _ in _planned(function, kind):
            record = CATALOGUE[next(iter(plan.choices.values())).structure]
            costs = ", ".join(map(str, record.average.values()))
            yield f"{record.name} ({record.comparisons or f'⊕ per insert, evict, query: {costs}'})", label


def _grouped(found: Iterable[tuple[str, str]]) -> str:
    """The texts, each with the input types that it applies to."""
    groups: dict[str, list[str]] = {}
    for text, label in found:
        groups.setdefault(text, []).append(label)
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{', '.join(labels)}: {text}" for text, labels in groups.items())


def windows_page() -> str:
    """The page of all windows."""
    lines = [
        "# Windows",
        "",
        "A window defines which rows an aggregate includes. Without `every`, each row has a window, and the results",
        "are added as columns. With `every`, there is a result row for each slide. A number of rows such as `1000` is",
        'short for `Count(1000)`, a duration such as `"1h"` for `Time("1h")`. See [queries.md](../queries.md) for',
        "order, lateness and emission, [calendar.md](../calendar.md) for durations, months and time zones.",
    ]
    names = ", ".join(sorted(window.__name__ for window in WINDOWS))
    lines += ["", "```python", f"from sash import {names}", "```"]
    for window in WINDOWS:
        lines += ["", f"## {window.__name__}", "", *_described(f"sash.{window.__name__}", window)]
    return "\n".join(lines) + "\n"


def modules_page() -> str:
    """The page of all packages, read from the sources: nothing is imported."""
    root = Path(sash.__file__).parent
    lines = [
        "# Modules",
        "",
        "What lives in each package, for readers of the code. [ARCHITECTURE.md](../../ARCHITECTURE.md) has the ideas",
        "and the ways of calls through them.",
    ]
    for path in sorted(root.rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(root.parent).parts)
        modules = [one for one in sorted(path.parent.glob("*.py")) if not one.stem.startswith("__")]
        lines += ["", f"## {name}", "", "```text", *_docstring(path).splitlines(), "```"]
        if path.parent != root:
            lines += ["", "| module | |", "|---|---|"]
            lines += [f"| `{one.stem}` | {_summary(one)} |" for one in modules]
    return "\n".join(lines) + "\n"


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _summary(path: Path) -> str:
    text = _docstring(path).split("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|").replace("<", "&lt;")


def pages() -> dict[Path, str]:
    """The pages, by path."""
    return {
        FOLDER / "aggregates.md": aggregates_page(),
        FOLDER / "modules.md": modules_page(),
        FOLDER / "windows.md": windows_page(),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
