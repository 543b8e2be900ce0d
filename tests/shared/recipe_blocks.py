"""SQL and TOML blocks of recipes: they give the rows of the Python block above them.

A block of SQL is a statement on the frame that it names. A block of TOML is a job, mostly its [query] alone; it runs on
the frame of the last call of `sash.rolling` or `Query.run`, written to a file. Of a recipe with an operator, the query
of the job must be that of the operator.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
import sash.pipeline
from sash.cli.job_file import read_job
from sash.cli.job_pipeline import PreparedJob
from sash.cli.job_query import query_of

LANGUAGES = ("sql", "toml")

EXPLANATIONS = {"sql": "Not possible in SQL", "toml": "nor in a job"}
"""The line that explains why a recipe has no block of a language."""

IMPORTED = "my_aggregates"
"""The module that jobs of recipes import: it stands for the page."""


class RecipeBlocks:
    """Records the results of a page's Python blocks, and compares those of its other blocks."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.data: Any = None
        self.result: Any = None
        self.operator: Any = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record calls of `sash.rolling`, `Query.run`, `Query.operator` and `sash.pipe`."""
        rolling, run, operator, pipe = sash.rolling, sash.Query.run, sash.Query.operator, sash.pipe

        def record(data: Any, result: Any) -> Any:
            if isinstance(result, pd.DataFrame):
                self.data, self.result, self.operator = data, result, None
            return result

        def recorded_operator(query: Any, *arguments: Any, **named: Any) -> Any:
            self.operator = operator(query, *arguments, **named)
            return self.operator

        def recorded_pipe(source: Any, query: Any, sink: Any, **named: Any) -> Any:
            self.operator = operator(query, sash.pipeline.files(source).schema)
            return pipe(source, query, sink, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sash, "pipe", recorded_pipe)
            patch.setattr(sash, "rolling", lambda data, *more, **named: record(data, rolling(data, *more, **named)))
            patch.setattr(sash.Query, "run", lambda query, data: record(data, run(query, data)))
            patch.setattr(sash.Query, "operator", recorded_operator)
            yield

    def check(self, language: str, source: str) -> None:
        """Raises AssertionError unless a block gives the rows of the Python block above it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, IMPORTED, self.module)
            self._check(language, source)

    def _check(self, language: str, source: str) -> None:
        if language == "sql":
            named = re.search(r"\bFROM\s+(?:TABLE\(\w+\(TABLE\s+)?(\w+)", source)
            assert named is not None, "the statement has no FROM"
            table = vars(self.module)[named[1]]
            assert table is self.data, f"{named[1]} is not the frame of the last call"
            compare(sash.sql(source, **{named[1]: table}), self.result, self.data)
        elif self.operator is not None:
            self._compare_queries(source)
        else:
            compare(self._run_job(source), self.result, self.data)

    def _run_job(self, source: str) -> pd.DataFrame:
        assert "[source]" not in source, "the frame of the last call is the source"
        with tempfile.TemporaryDirectory() as folder:
            rows, results, job = (Path(folder, name) for name in ("rows.parquet", "results", "job.toml"))
            pq.write_table(pa.Table.from_pandas(self.data, preserve_index=False), rows)
            tables = f'[source]\nkind = "parquet"\npath = "{rows}"\n[sink]\nkind = "parquet"\npath = "{results}"\n'
            job.write_text(f"{source}\n{tables}", "utf-8")
            PreparedJob(read_job(str(job))).run(follow=False, progress=None)
            return sash.pipeline.read(results).to_pandas()

    def _compare_queries(self, source: str) -> None:
        given = "" if "[source]" in source else '\n[source]\nkind = "parquet"\npath = "x"'
        given += "" if "[sink]" in source else '\n[sink]\nkind = "parquet"\npath = "y"'
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder, "job.toml")
            job.write_text(source + given + "\n", "utf-8")
            found = query_of(read_job(str(job)), self.operator.schema).query
        query = self.operator.query
        assert found.bind(self.operator.schema).fingerprint == query.bind(self.operator.schema).fingerprint
        assert (found.emit, found.late, found.lateness) == (query.emit, query.late, query.lateness)


def compare(found: pd.DataFrame, expected: pd.DataFrame, data: pd.DataFrame) -> None:
    """Raises AssertionError unless the rows are equal, in the columns that are found; some must be new."""
    missing = [name for name in found.columns if name not in expected.columns]
    assert not missing, f"the Python block has no column {missing[0]!r}"
    assert set(found.columns) - set(data.columns), "there is no column that is computed"
    got, wanted = (_rows(frame, list(found.columns)) for frame in (found, expected))
    assert len(got) == len(wanted), f"{len(got)} rows, and {len(wanted)} of the Python block"
    for mine, theirs in zip(got, wanted, strict=True):
        assert all(map(_same, mine, theirs)), f"{mine}, and {theirs} of the Python block"


def _rows(frame: pd.DataFrame, names: list[str]) -> list[list[Any]]:
    values = [[None if _is_null(value) else value for value in frame[name].tolist()] for name in names]
    return sorted([list(row) for row in zip(*values, strict=True)], key=lambda row: [_sorted_as(one) for one in row])


def _is_null(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def _sorted_as(value: Any) -> str:
    return f"{float(value):020.6f}" if isinstance(value, int | float) else str(value)


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, int | float) and isinstance(theirs, int | float):
        return math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return bool(mine == theirs)


def unexplained(text: str) -> list[str]:
    """Headings of the recipes that have neither a block of a language nor a line that explains why."""
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        for language in LANGUAGES:
            said = " ".join(section.split()).lower()
            if f"\n```{language}\n" not in section and EXPLANATIONS[language].lower() not in said:
                found.append(f"{title}: {language}")
    return found
