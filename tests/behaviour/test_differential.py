"""Tests of the differential test: a correct engine passes, and each kind of wrong engine fails."""

import copy
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

import sash
from sash.testing import Reference
from tests.behaviour.differential import compare_with_reference
from tests.shared.streams import Case, StreamStep, cases
from tests.testing.stream_text import SCHEMA, rows


class Twin(Reference):
    """The reference as an engine, with snapshots."""

    @property
    def metrics(self) -> dict[str, int]:
        return {"late": self.late, "untimed": self.untimed}

    def snapshot(self) -> Any:
        return copy.deepcopy({k: v for k, v in vars(self).items() if k not in ("query", "bound_query", "clock")})

    @classmethod
    def begin(cls, query: Any, schema: Any, mode: str) -> Any:
        return cls(query, schema, mode=mode)

    @classmethod
    def resume(cls, query: Any, state: dict[str, Any]) -> Any:
        twin = cls(query, state["_schema"], mode=state["mode"])
        vars(twin).update(state)
        return twin

    def __init__(self, query: Any, schema: Any, **keywords: Any) -> None:
        super().__init__(query, schema, **keywords)
        self._schema = schema


def case(text: str, *more: str, mode: str = "rows", **arguments: Any) -> Case:
    """A case of one process call for each text, and a snapshot after the first."""
    arguments = {"windows": sash.Count(2), "by": "k", "on": "t", "lateness": 2} | arguments
    aggregates = {"m": sash.max("x"), "s": sash.mean("v")}
    query = sash.Query(arguments.pop("windows"), **arguments, **aggregates)
    counts = [len(one.split()) for one in (text, *more)]
    steps = [StreamStep("process", rows(one, sum(counts[:i]))) for i, one in enumerate((text, *more))]
    return Case(query, SCHEMA, mode, (steps[0], StreamStep("snapshot"), *steps[1:], StreamStep("finish")))


PLAIN = case("a1/1 b2/2 a5/3", "a3/4 b5 a9/5 a9/1", "a2/1 b?")


@given(cases())
def test_a_right_engine_passes(drawn: Case) -> None:
    compare_with_reference(drawn, Twin.begin, Twin.resume)


def changed(batch: pa.RecordBatch, column: str, values: list[Any]) -> pa.RecordBatch:
    place = batch.schema.get_field_index(column)
    return batch.set_column(place, batch.schema.field(place), pa.array(values, batch.schema.field(place).type))


class Forgetful(Twin):
    """Loses the last result of each call."""

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = super().process(batch)
        return found.slice(0, max(0, found.num_rows - 1))


class Doubled(Twin):
    """Gives a result twice."""

    def finish(self) -> pa.RecordBatch:
        found = super().finish()
        return found.take(pa.array([0, *range(found.num_rows)]))


class Backwards(Twin):
    """Gives its results in the wrong order."""

    def finish(self) -> pa.RecordBatch:
        found = super().finish()
        return found.take(pa.array(range(found.num_rows)[::-1]))


class Inexact(Twin):
    """Is a little wrong in a float."""

    def finish(self) -> pa.RecordBatch:
        found = super().finish()
        return changed(found, "s", [value and value * (1 + 1e-11) for value in found["s"].to_pylist()])


class Wrong(Twin):
    """Is wrong in a whole number."""

    def finish(self) -> pa.RecordBatch:
        found = super().finish()
        return changed(found, "m", [value + 1 for value in found["m"].to_pylist()])


class Late(Twin):
    """Keeps everything until the end."""

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return super().process(batch).slice(0, 0)


class Silent(Twin):
    """Does not hand out late rows."""

    def late_rows(self) -> pa.RecordBatch:
        return super().late_rows().slice(0, 0)


class Miscounting(Twin):
    """Counts untimed rows as late ones."""

    @property
    def metrics(self) -> dict[str, int]:
        return {"late": self.late + self.untimed, "untimed": 0}


class Amnesiac(Twin):
    """An engine that loses its state at a snapshot."""

    @classmethod
    def resume(cls, query: Any, state: dict[str, Any]) -> Any:
        return cls(query, state["_schema"], mode=state["mode"])


class Untyped(Twin):
    """Gives another type."""

    def finish(self) -> pa.RecordBatch:
        found = super().finish()
        place = found.schema.get_field_index("m")
        return found.set_column(place, "m", found["m"].cast(pa.float64()))


class Patient(Twin):
    """Accepts an out-of-order row without an error."""

    def _refuse_late(self, *judged: Any) -> None:
        pass


@pytest.mark.parametrize(
    "engine",
    [Forgetful, Doubled, Backwards, Inexact, Wrong, Late, Silent, Miscounting, Amnesiac, Untyped],
    ids=lambda e: e.__name__,
)
def test_a_wrong_engine_is_caught(engine: type[Twin]) -> None:
    compare_with_reference(PLAIN, Twin.begin, Twin.resume)
    with pytest.raises(AssertionError):
        compare_with_reference(PLAIN, engine.begin, engine.resume)


def test_an_error_that_is_due_must_come() -> None:
    behind = case("a5 a1", lateness=None)
    compare_with_reference(behind, Twin.begin, Twin.resume)
    with pytest.raises(pytest.fail.Exception):
        compare_with_reference(behind, Patient.begin, Patient.resume)


def test_flagged_rows_stand_outside_the_order_and_are_counted() -> None:
    flagged = case("a5/1 a1/2 b2/3 a6/4", "a?/5 b9/6", late="flag", lateness=0)

    class Quiet(Twin):
        def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            found = super().process(batch)
            return found.filter(pa.array([not late for late in found["_late"].to_pylist()], pa.bool_()))

    class Elsewhere(Twin):
        def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            found = super().process(batch)
            late = found["_late"].to_pylist()
            return found.take(pa.array(sorted(range(found.num_rows), key=lambda i: late[i]), pa.int64()))

    compare_with_reference(flagged, Elsewhere.begin, Elsewhere.resume)
    with pytest.raises(AssertionError):
        compare_with_reference(flagged, Quiet.begin, Quiet.resume)


def test_eager_results_are_compared_with_their_revisions() -> None:
    eager = case("a1/1 a5/2", "a3/3", emit="eager", lateness=9)

    class Fresh(Twin):
        def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            found = super().process(batch)
            return changed(found, "_revision", [0] * found.num_rows)

    compare_with_reference(eager, Twin.begin, Twin.resume)
    with pytest.raises(AssertionError):
        compare_with_reference(eager, Fresh.begin, Fresh.resume)
