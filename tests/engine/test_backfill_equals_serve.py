"""Run `examples/backfill_equals_serve.py`, which checks that training and serving agree."""

import os

import pytest

from examples.backfill_equals_serve import QUERY, differences, main, trips


@pytest.mark.usefixtures("interpreted_kernels")
def test_on_trips_that_are_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(requests=60, made_up=1500)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "1,500 trips made up, 60 requests",
        "as_of and lookup: 60 rows, 13 features, 0 differences",
        "as_of and stream: 1,500 rows, 12 features, 0 differences",
        "backfill equals serve",
    ]


@pytest.mark.all_compiled
def test_on_the_trips_of_a_file_or_on_more_that_are_made_up() -> None:
    assert main(os.environ.get("SASH_TRIPS"), requests=500)


def test_a_leak_is_reported() -> None:
    events = trips(None, 300)
    spine = events.select(["station", "ts"])
    features = QUERY.as_of(spine, events).schema.names[2:]
    found = differences(QUERY.as_of(spine, events), QUERY.as_of(spine, events, closed="right"), features)
    assert found[0].startswith("row 0, came_1h: 0 and 1")
