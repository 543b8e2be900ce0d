"""Run `examples/pipeline.py`, which checks its own results."""

import pytest

from examples.pipeline import main


@pytest.mark.all_compiled
def test_the_output_of_a_killed_pipeline_is_that_of_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    main(rows=8000, kills=1)
    printed = capsys.readouterr().out
    assert printed.startswith("killed after")
    assert printed.endswith("8000 results; equal to those of a batch: True\n")
