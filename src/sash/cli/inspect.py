"""`sash inspect`: summarize a snapshot, a store or a Spark checkpoint, without its query.

The query that wrote a state is rebuilt from the description in its root page, which is parsed and never executed.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sash.cli.job_query import WINDOWS
from sash.columns.time_numbers import time_text
from sash.engine.migration import key_sizes
from sash.engine.operator import Operator
from sash.engine.operator_snapshot import snapshot_parts
from sash.expressions.parser import expr
from sash.monoids import functions
from sash.monoids.arithmetic import Aggregated
from sash.plan.fingerprint import window_text
from sash.plan.query import Query
from sash.state.header_page import directories
from sash.state.root_page import HEADER, ROOT, root_schema, stored_description
from sash.stores import MemoryStore
from sash.stores import envelope as snapshots
from sash.stores.envelope import PageError, decoding, fingerprint_of, read_json, unwrap
from sash.stores.pages import read_batch

# --- State query ---

OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def described_query(described: Mapping[str, Any], schema: pa.Schema, fingerprint: str) -> Query | None:
    """The query of a description, if it is the one that wrote the state; None if the description is not complete.

    A description has no functions: for user-defined aggregates, the query itself is needed.
    """
    try:
        given = {name: _value(described[name]) for name in ("lateness", "forget", "min_periods") if described.get(name)}
        aggregates = {name: _aggregate(text) for name, text in described["aggregates"].items()}
        query = Query(_windows(described), by=described["by"], on=described["on"] or None, **given, **aggregates)
        return query if query.bind(schema).fingerprint == fingerprint else None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        SyntaxError,
        TypeError,
        ValueError,
    ):
        return None


def _windows(described: Mapping[str, Any]) -> Any:
    """The windows of the query: one, several by name, or none if each aggregate has its own."""
    found = {}
    for name, window in described["windows"].items():
        arguments = {key: _value(text) for key, text in window.items() if key != "kind"}
        found[name] = WINDOWS[window["kind"]](**arguments)
    if "" in found:
        return found[""]
    own = {f"{window!r}" for window in found.values()}
    named = {name: window for name, window in found.items() if name not in own}
    return named or None


def _value(text: str) -> Any:
    """A parameter as it was given: a number, true or false, or text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _aggregate(text: str) -> Any:
    """An aggregate such as "quantile('x') with q=0.9"."""
    call, _, parameters = text.partition(" with ")
    given = {}
    for parameter in parameters.split(", ") if parameters else []:
        name, _, value = parameter.partition("=")
        given[name] = _value(value)
    return _evaluated(ast.parse(call, mode="eval").body, given)


def _operand(node: ast.expr, more: Mapping[str, Any]) -> Any:
    """An operand of a formula: an aggregate or a number; texts and lists could be repeated until memory is full."""
    found = _evaluated(node, more)
    if not isinstance(found, Aggregated | int | float):
        raise ValueError(f"{ast.unparse(node)} is not an operand")
    return found


def _evaluated(node: ast.expr, more: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_operand(node.left, more), _operand(node.right, more))
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    values = [_evaluated(one, {}) for one in node.args]
    named = {str(one.arg): _evaluated(one.value, {}) for one in node.keywords}
    if isinstance(node.func, ast.Attribute) and node.func.attr == "over":
        return _evaluated(node.func.value, more).over(*values)
    if not isinstance(node.func, ast.Name):
        raise ValueError(f"{ast.unparse(node.func)} is not a name")
    name = node.func.id
    if name == "expr":
        return expr(*values)
    if name in WINDOWS:
        return WINDOWS[name](*values, **named)
    if name.startswith("_"):
        raise ValueError(f"{name} is not an aggregate")
    return getattr(functions, name)(*values, **named, **more)


# --- State summary ---

COUNTERS = ("rows_in", "rows_out", "late", "untimed")

KINDS = {"b": "buckets of keys", "s": "elements of large keys", "q": "reorder buffer", "e": "eager state"}
"""Kinds of pages, by the first letter of their names; other pages are listed by name."""


@dataclass(frozen=True)
class StoredPages:
    """The pages of one state: a snapshot, a store, or a shard of a Spark stream."""

    pages: Mapping[str, bytes]
    schema: pa.Schema | None = None
    """The columns of the input rows; None: the root page has them."""


def state_summary(path: str, top: int = 0, query: Query | None = None) -> dict[str, Any]:
    """Summarize a snapshot (a file), a store of RocksDB or a checkpoint of Spark (directories).

    top: how many of the largest keys to list.
    query: the query of the state, needed to list keys if the stored description is not complete.

    Raises FileNotFoundError if there is nothing, PageError if the state is damaged.
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no snapshot, store or checkpoint {path!r}")
    if not place.is_dir():
        state = _of_snapshot(place.read_bytes())
        return {"kind": "snapshot", **_timed(_summary(state.pages), state), **_largest([state], top, query)}
    if all((place / name).is_dir() for name in ("offsets", "commits", "state")):
        return _of_checkpoint(place, top, query)
    from sash.stores import RocksDBStore

    store = RocksDBStore(place, read_only=True)
    try:
        state = StoredPages(dict(store.scan("")))
    finally:
        store.close()
    return {"kind": "store", **_timed(_summary(state.pages), state), **_largest([state], top, query)}


def _timed(summary: dict[str, Any], state: StoredPages) -> dict[str, Any]:
    """The summary with its watermark as a time, if the state has the type of its time column."""
    schema = state.schema or root_schema(state.pages.get(ROOT))
    on, given = (summary["query"] or {}).get("on"), summary["watermark"]
    if schema is None or not on or given is None or not re.fullmatch(r"-?\d+", given):
        return summary
    return summary | {"watermark": str(time_text(int(given), schema.field(on[0]).type))}


def _of_snapshot(data: bytes) -> StoredPages:
    schema, inner = snapshot_parts(data)
    return StoredPages(snapshots.unpack_pages(inner, fingerprint_of(inner, snapshots.NAME))[1], schema)


def _of_checkpoint(place: Path, top: int, query: Query | None) -> dict[str, Any]:
    """The sums over the shards of a Spark stream, and their maximum watermark."""
    from sash.spark import session
    from sash.spark.stream.checkpoint import read_checkpoint

    found = read_checkpoint(session(), place)
    shards = [StoredPages(pages) for _, pages in sorted(found.shards.items()) if HEADER in pages]
    if not shards:
        raise PageError(f"no shard of the checkpoint {str(place)!r} has state yet")
    each = [_summary(shard.pages) for shard in shards]
    first = each[0]
    sums = {name: _sum([one[name] for one in each]) for name in (*COUNTERS, "keys", "elements", "waiting")}
    watermarks = [one["watermark"] for one in each if one["watermark"] is not None]
    total = {**first, **sums, "watermark": max(watermarks, key=float, default=None)}
    total["pages"] = _by_kind([item for shard in shards for item in shard.pages.items()])
    where = {"batch": found.batch, "watermark_ms": found.watermark_ms, "shards": len(shards)}
    return {"kind": "checkpoint", **where, **_timed(total, shards[0]), **_largest(shards, top, query)}


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _largest(states: Sequence[StoredPages], top: int, query: Query | None) -> dict[str, Any]:
    """The keys with the most elements; None if the query that is needed to read them is unknown."""
    if not top:
        return {}
    found: list[tuple[int, dict[str, Any]]] = []
    for state in states:
        opened = _opened(state, query)
        if opened is None:
            return {"largest": None}
        for keys, counts in key_sizes(opened):
            order = np.argsort(-counts, kind="stable")[:top]
            values = [column.take(pa.array(order)).to_pylist() for column in keys]
            rows = zip(*values, strict=True) if values else [()] * len(order)
            named = [dict(zip(opened.query.by, row, strict=True)) for row in rows]
            found += zip(counts[order].tolist(), named, strict=True)
        found = sorted(found, key=lambda one: -one[0])[:top]
    return {"largest": [{"key": key, "elements": count} for count, key in found]}


def _opened(state: StoredPages, query: Query | None) -> Operator | None:
    """An operator on a copy of the pages, in memory; None if its query is unknown."""
    header = state.pages[HEADER]
    fingerprint = fingerprint_of(header, f"page {HEADER!r}")
    schema = state.schema or root_schema(state.pages.get(ROOT))
    if schema is None or _meta(header)["eager"]:
        return None
    if query is None:
        described = stored_description(state.pages[ROOT]) if ROOT in state.pages else None
        query = None if described is None else described_query(described, schema, fingerprint)
        if query is None:
            return None
    store = MemoryStore()
    store.put_many(dict(state.pages))
    return Operator(query, schema, mode=_meta(header)["mode"], store=store)


def _meta(header: bytes) -> dict[str, Any]:
    label = f"page {HEADER!r}"
    found: dict[str, Any] = read_json(unwrap(header, HEADER, fingerprint_of(header, label), label)[0])
    return found


def _summary(pages: Mapping[str, bytes]) -> dict[str, Any]:
    if HEADER not in pages:
        raise PageError(f"there is no page {HEADER!r}: no operator has committed its state here")
    label = f"page {HEADER!r}"
    fingerprint = fingerprint_of(pages[HEADER], label)
    items = unwrap(pages[HEADER], HEADER, fingerprint, label)
    with decoding(label):
        meta = read_json(items[0])
        # the columns that are read here have the same width for times of any type
        buckets, waiting = (read_batch(*pair) for pair in zip(items[1:], directories(pa.int64()), strict=True))
        counters = dict(zip(COUNTERS, meta["counters"], strict=True))
        counters |= dict(zip(("failed", "failed_results"), meta.get("failed", ()), strict=False))
        progress = {"mode": meta["mode"], "watermark": meta["watermark"], **counters, "offset": meta["offset"]}
    query = stored_description(pages[ROOT]) if ROOT in pages else None
    if query is not None:
        query = {name: value for name, value in query.items() if name != "keys"}
    found = {"query": query, "fingerprint": fingerprint, **progress}
    # eager state is a log of changes, whose header counts no keys
    found["keys"] = None if meta["eager"] else _total(buckets, "keys")
    found["elements"] = None if meta["eager"] else _total(buckets, "elements")
    found["waiting"] = _total(waiting, "rows")
    return found | {"pages": _by_kind(pages.items())}


def _total(batch: pa.RecordBatch, name: str) -> int:
    return sum(batch.column(name).to_pylist())


def _by_kind(pages: Iterable[tuple[str, bytes]]) -> dict[str, dict[str, int]]:
    """The number of pages and of their bytes, by kind."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"pages": 0, "bytes": 0})
    for name, page in pages:
        kind = KINDS[name[0]] if name[:1] in KINDS and name[1:2].isalnum() and name[-1:].isalnum() else name
        found[kind]["pages"] += 1
        found[kind]["bytes"] += len(page)
    return dict(found)


def summary_lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The summary as readable text: names and values."""
    query = found["query"]
    if query is not None:
        for name, window in query["windows"].items():
            yield f"window {name}".strip(), window_text(window)
        for name, text in query["aggregates"].items():
            yield f"aggregate {name}", text
        for name in ("by", "on"):
            yield name, ", ".join(query[name])
        for name in ("lateness", "forget", "min_periods"):
            if query.get(name):
                yield name, query[name]
    for name in (
        "batch",
        "watermark_ms",
        "shards",
        "fingerprint",
        "mode",
        "watermark",
        *COUNTERS,
        "offset",
        "keys",
        "elements",
        "waiting",
    ):
        value = found.get(name)
        if name not in found:
            continue
        if isinstance(value, int):
            yield name, f"{value:,}"
        else:
            yield name, value if isinstance(value, str) else "" if value is None else json.dumps(value)
    for kind, sizes in found["pages"].items():
        yield f"pages: {kind}", f"{sizes['pages']:,} of {sizes['bytes']:,} bytes"
    if "largest" in found and found["largest"] is None:
        yield "largest keys", "unknown: the state does not describe its query completely; give it with --job"
    for number, one in enumerate(found.get("largest") or (), 1):
        key = ", ".join(f"{name}={value}" for name, value in one["key"].items()) or "all rows"
        yield f"largest key {number}", f"{key}: {one['elements']:,} elements"
