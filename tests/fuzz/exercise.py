"""Open a corrupted state, use it, and classify the outcome."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import sash
from sash.engine import Operator
from sash.stores import MemoryStore, PageError
from tests.fuzz.corpus import Subject, small_pages
from tests.fuzz.envelopes import State
from tests.shared.streams import StreamStep

REFUSED, RAN = "refused", "ran"


class Failure(Exception):
    """What must not come of a state."""


def exercise(of: Subject, state: State, is_snapshot: bool) -> str:
    """Open a state and use it: was it refused, or did it run? Raises Failure for anything else."""
    with small_pages(of.small):
        return _exercised(of, state, is_snapshot)


def _exercised(of: Subject, state: State, is_snapshot: bool) -> str:
    operator = _judged("to open", lambda: _open(of, state, is_snapshot), only_pages=True)
    if operator is None:
        return REFUSED
    outcomes = [_used(operator, "metrics", lambda: operator.metrics), _used(operator, "due", lambda: operator.due)]
    outcomes.append(_used(operator, "lookup", lambda: operator.lookup(_keys(of))))
    rest = of.case.steps[of.done - 1 :][-4:]
    outcomes += [_used(operator, step.call, lambda step=step: _call(operator, step)) for step in rest]  # type: ignore[misc]
    outcomes.append(_used(operator, "late_rows", operator.late_rows))
    if is_snapshot:
        outcomes.append(_used(operator, "snapshot", operator.snapshot))
    return RAN if all(outcomes) else REFUSED


def _open(of: Subject, state: State, is_snapshot: bool) -> Operator:
    if is_snapshot:
        return Operator.restore(of.case.query, state.snapshot(), clock=lambda: 0.0)
    return Operator(
        of.case.query, of.case.schema, mode=of.case.mode, store=MemoryStore(dict(state.pages)), clock=lambda: 0.0
    )


def _keys(of: Subject) -> dict[str, pa.Array]:
    """Some keys to look up."""
    batch = next(step.argument for step in of.case.steps if step.call == "process")
    return {name: batch.column(name)[:3] for name in of.case.query.by}


def _call(operator: Operator, step: StreamStep) -> Any:
    if step.call == "process":
        return operator.process(step.argument)
    if step.call == "advance":
        return operator.advance(step.argument)
    return operator.finish() if step.call == "finish" else None


def _used(operator: Operator, what: str, work: Callable[[], Any]) -> bool:
    """Did a call work? If a page was refused, the operator is as it was, and raises the same error again."""
    before = operator.state.progress
    try:
        _checked(_judged(what, work))
    except PageError:
        if operator.state.progress is not before:
            raise Failure(f"{what} has refused a page, and changed the state") from None
        _judged(f"{what} again", work)
        return False
    return True


def _checked(found: Any) -> None:
    """Results are valid, too."""
    if isinstance(found, pa.RecordBatch):
        try:
            found.validate(full=True)
        except pa.ArrowException as error:
            raise Failure(f"results are not valid: {error}") from error


def _judged(what: str, work: Callable[[], Any], only_pages: bool = False) -> Any:
    """What a call gives; None if it refused for a good reason. Raises Failure for a bad one."""
    try:
        return work()
    except PageError as error:
        if not any(name in str(error) for name in ("page '", "pages '", "the snapshot", "the state")):
            raise Failure(f"{what}: the message names no page: {error}") from error
        if only_pages or what.endswith("again"):
            return None
        raise
    except Exception as error:
        if only_pages or not is_deliberate(error):
            trace = "".join(traceback.format_exception(error))
            raise Failure(f"{what}: {type(error).__name__}: {error}\n{trace}") from error
        return None


def is_deliberate(error: BaseException) -> bool:
    """Was an error raised by a `raise` of sash, rather than by a bug in it?"""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0)
    own = sash.__file__.rsplit("/", 1)[0]
    return last.filename.startswith(own) and line.strip().startswith("raise ") and not isinstance(error, MemoryError)
