"""The public API as type checkers and `help()` see it."""

import inspect
import json
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import polars as pl
import pytest

import sash
from sash.aggregators.catalogue import CATALOGUE
from sash.engine import Operator
from sash.frames.accessors import Accessor
from sash.monoids.functions import AGGREGATES
from sash.plan import api_types, validation
from sash.plan.bound_query import MODES
from sash.plan.options import PREFERENCES
from sash.windows import specs
from tests.shared.effort import seldom

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).with_name("typing_cases.py")
WRONG = {number for number, line in enumerate(CASES.read_text().splitlines(), 1) if "# wrong:" in line}
ANYTHING = ("data", "spine", "offset", "identity", "empty", "returns", "key")
"""Arguments that may be of any type."""
OPERATOR = [Operator, Operator.process, Operator.advance, Operator.lookup, Operator.restore, sash.monoid]
WINDOWS = [sash.Count, sash.Time, sash.Delta, sash.Session, sash.Punctuation, sash.Lifetime, sash.Policy]


def run(*command: str, **environment: str) -> str:
    """What a checker prints. Fails if it could not run: both exit with 0 or 1 when they have checked."""
    checker = [sys.executable, "-m", *command]
    done = subprocess.run(checker, cwd=ROOT, capture_output=True, text=True, env=os.environ | environment, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def check(errors: dict[int, str]) -> None:
    """Exactly the marked lines are reported."""
    unexpected = {line: message for line, message in errors.items() if line not in WRONG}
    assert not unexpected
    assert not WRONG - errors.keys(), "these lines are wrong and were not reported"


@pytest.mark.parametrize(
    "installed", [seldom(True, id="all packages"), pytest.param(False, id="without polars and pyspark")]
)
def test_mypy_reports_the_wrong_uses_alone(installed: bool, tmp_path: Path) -> None:
    config = tmp_path / "mypy.ini"
    skipped = "numba.*" if installed else "numba.*,polars.*,pyspark.*"
    config.write_text(
        f"[mypy]\nstrict = true\n[mypy-{skipped}]\nfollow_imports = skip\n"
        "[mypy-pandas.*,pyarrow.*]\nignore_missing_imports = true\n"
    )
    cache = ROOT / ".mypy_cache" / f"cases_{installed}"
    arguments = ["--config-file", str(config), "--cache-dir", str(cache), "--no-pretty", str(CASES)]
    found = run("mypy", *arguments, MYPYPATH=str(ROOT / "src"))
    check({int(one[1]): one[2] for one in re.finditer(r"typing_cases\.py:(\d+): error: (.*)", found)})
    assert not re.findall(r"^(?!.*typing_cases).*error: .*", found, re.MULTILINE)


def test_pyright_reports_the_wrong_uses_alone(tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(CASES.read_text())
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"include": ["cases.py"], "extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11"})
    )
    found = json.loads(run("pyright", "--pythonpath", sys.executable, "-p", str(tmp_path), "--outputjson"))
    assert found["summary"]["filesAnalyzed"] == 1
    errors = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    check({one["range"]["start"]["line"] + 1: one["message"] for one in errors})


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (api_types.Emit, validation.EMIT),
        (api_types.Late, validation.LATE),
        (api_types.Mode, MODES),
        (api_types.Prefer, PREFERENCES),
        (specs.Closed, specs.CLOSED),
    ],
)
def test_words_are_those_that_are_checked(words: Any, allowed: tuple[str, ...]) -> None:
    assert get_args(words) == allowed


def test_structure_names_are_those_of_the_catalogue() -> None:
    assert sorted(get_args(api_types.StructureName)) == sorted(CATALOGUE)


def test_rolling_takes_what_query_takes() -> None:
    """It also takes arrays, with one aggregate without a name."""
    rolling, query = inspect.signature(sash.rolling), inspect.signature(sash.Query)
    data, windows, unnamed, *rest = rolling.parameters.values()
    assert (data.name, unnamed.name, unnamed.kind) == ("data", "unnamed", unnamed.VAR_POSITIONAL)
    assert [windows, *rest] == [*query.parameters.values()]
    for one in [*query.parameters.values()][1:]:
        assert one.kind in (one.KEYWORD_ONLY, one.VAR_KEYWORD)


def test_the_arguments_of_a_query_are_listed() -> None:
    assert [*validation.ARGUMENTS, "aggregates"] == list(inspect.signature(sash.Query).parameters)


@pytest.mark.parametrize("thing", [sash.plot, Accessor.rolling], ids=lambda thing: thing.__qualname__)
def test_others_take_what_rolling_takes(thing: Any) -> None:
    mine = inspect.signature(thing).parameters
    for name, parameter in inspect.signature(sash.rolling).parameters.items():
        assert name in ("data", "unnamed") or mine[name] == parameter


def test_accessor_takes_what_as_of_takes() -> None:
    mine, theirs = (list(inspect.signature(one).parameters.values()) for one in (Accessor.as_of, sash.as_of))
    assert mine[1:] == theirs[1:]


def test_help_of_an_accessor_shows_its_parameters() -> None:
    for frame in (pd.DataFrame({"x": [1]}), pl.DataFrame({"x": [1]}), pl.LazyFrame({"x": [1]})):
        text = pydoc.render_doc(frame.sash.rolling, renderer=pydoc.plaintext)  # type: ignore[union-attr]
        assert "emit: 'Emit' = 'final'" in text
        assert "**aggregates: 'Aggregated'" in text


@pytest.mark.parametrize(
    "thing",
    [
        *(sash.rolling, sash.as_of, sash.Query, sash.Window, sash.Options),
        *(sash.Query.operator, sash.Query.run, sash.Query.as_of, *OPERATOR, *WINDOWS),
        *(sash.plot, sash.sql, sash.pipe, Accessor.rolling, Accessor.as_of),
        *(getattr(sash, name) for name in AGGREGATES),
    ],
    ids=lambda thing: thing.__qualname__,
)
def test_help_explains_every_argument(thing: Any) -> None:
    text = inspect.getdoc(thing) or ""
    for name, parameter in inspect.signature(thing).parameters.items():
        if name != "self":
            assert re.search(rf"^(\w+, )*{name}(, \w+)*: ", text, re.MULTILINE), f"{name} is not explained"
            assert parameter.annotation not in (parameter.empty, "Any") or name in ANYTHING


@pytest.mark.parametrize("name", AGGREGATES)
def test_help_of_aggregates_has_an_example(name: str) -> None:
    assert f"sash.{name}(" in (inspect.getdoc(getattr(sash, name)) or "").partition(">>> import sash")[2]


@pytest.mark.parametrize("word", ["partition by", "watermark", "tumbling", "hopping", "UDAF", "sliding", "event time"])
@pytest.mark.parametrize("thing", [sash.rolling, sash.Query], ids=["rolling", "Query"])
def test_help_has_the_words_people_search_for(thing: Any, word: str) -> None:
    assert word in pydoc.render_doc(thing, renderer=pydoc.plaintext)
