"""info, structures, warm and sql, in a pipe and in a terminal; exit codes; errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash.warm
from sash.aggregators.catalogue import CATALOGUE
from sash.cli import main as entry
from sash.cli.commands import app
from sash.cli.environment import as_text, environment
from tests.cli.typed import in_a_process, in_a_terminal, typed
from tests.interpreted import SWITCHED_OFF

TRADES = pa.table({"t": [1, 2, 3, 9], "k": ["a", "b", "a", "a"], "price": [3.0, 5.0, 4.0, 1.5]})
HIGH = "SELECT k, t, max(price) OVER (PARTITION BY k ORDER BY t ROWS 1 PRECEDING) AS high FROM trades"
ROWS = "k,t,high\na,1,3.0\nb,2,5.0\na,3,4.0\na,9,4.0\n"


@pytest.fixture
def trades(tmp_path: Path) -> Path:
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    return tmp_path / "trades.parquet"


def test_info() -> None:
    assert typed("info").out == as_text(environment())
    done = in_a_process("info", "--json")
    assert json.loads(done.out) == environment()
    assert (done.code, done.err) == (0, "")


def test_version_and_help() -> None:
    assert typed("--version").out == f"sash {sash.__version__}\n"
    for arguments in ([], ["--help"], ["sql", "--help"]):
        done = typed(*arguments)
        assert (done.code, done.err) == (0, "")
        assert "Usage: sash" in done.out
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        assert name in typed().out
        assert "--help" in typed(name, "--help").out


def test_structures() -> None:
    assert [one["name"] for one in json.loads(typed("structures", "--json").out)] == [*CATALOGUE]
    lines = typed("structures").out.splitlines()
    assert lines[0] == "structure,needs,insert,evict,query,space,summary"
    assert len(lines) == 1 + len(CATALOGUE)
    assert "calls of ⊕ in the worst case" in typed("structures", terminal=True).out


def test_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(names: list[str], jobs: int, say: object) -> int:
        asked.append((names, jobs, say))
        return 3

    monkeypatch.setattr(sash.warm, "run", run)
    assert typed("warm", "--jobs", "2", "--only", "frame: max").out == "3 kernels compiled\n"
    assert asked[0][:2] == (["frame: max of floats", "frame: max of integers"], 2)
    assert json.loads(typed("warm", "--only", "lag of floats", "--json").out)["compiled"] == 3
    assert asked[1][1] >= 1
    done = typed("warm", "--only", "nothing")
    assert (done.code, len(asked)) == (2, 2)
    assert "no task name contains 'nothing'" in done.err
    assert typed("warm", "--jobs", "0").code == 2


def test_sql_in_a_pipe(trades: Path) -> None:
    done = in_a_process("sql", HIGH, f"trades={trades}")
    assert (done.code, done.out, done.err) == (0, ROWS, "")


def test_sql_in_a_terminal(trades: Path) -> None:
    coloured, plain = (in_a_terminal("sql", HIGH, f"trades={trades}", **more) for more in ({}, {"NO_COLOR": "1"}))
    assert coloured.code == plain.code == 0
    assert "│ a │ 1 │  3.0 │" in plain.out
    assert "│ a │ 9 │  4.0 │" in coloured.out
    assert "\x1b[3" not in plain.out


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_sql_from_file_to_file(trades: Path, suffix: str) -> None:
    """The output file of one command is the input of the next."""
    copy, found = trades.with_name(f"copy.{suffix}"), trades.with_name(f"found.{suffix}")
    same = "SELECT t, k, price, count(*) OVER (ORDER BY t ROWS 1 PRECEDING) AS n FROM t"
    done = typed("sql", same, f"t={trades}", "--out", copy)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert typed("sql", HIGH, f"trades={copy}", "--out", found).code == 0
    rows = typed("sql", "SELECT *, count(*) OVER (ORDER BY t ROWS 1 PRECEDING) AS n FROM f", f"f={found}", "--json").out
    assert json.loads(rows.splitlines()[3]) == {"k": "a", "t": 9, "high": 4.0, "n": 2}
    assert not [*trades.parent.glob("*.new")]


def test_a_terminal_shows_the_first_rows(trades: Path) -> None:
    done = typed("sql", HIGH, f"trades={trades}", "--rows", "2", terminal=True)
    assert "2 of 4 rows; --rows shows more" in done.out
    assert "│ 9 │" not in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["bogus"], 2, "No such command 'bogus'"),
        (["structures", "--jsn"], 2, "--jsn"),
        (["sql", HIGH], 2, "Missing argument"),
        (["sql", HIGH, "trades"], 2, "'trades': give tables as NAME=FILE, such as trades=trades.parquet"),
        (["sql", HIGH, "options=x"], 2, "'options=x': the name 'options' is taken"),
        (["sql", HIGH, "trades=x", "trades=y"], 2, "the name 'trades' is taken"),
        (["sql", HIGH, "trades=x.parquet", "--out", "y.txt"], 2, "--out y.txt: the name must end in one of .parquet"),
        (["sql", HIGH, "trades=no.parquet"], 1, "there is no file or directory 'no.parquet' to read"),
        (["sql", "SELECT 1", "t=FILE"], 1, "there is no FROM"),
        (["sql", "SELECT k FROM trades LIMIT 1", "trades=FILE"], 1, "LIMIT is not about windows"),
        (["sql", HIGH.replace("price", "prise"), "trades=FILE"], 1, "prise"),
    ],
)
def test_errors_are_one_line(trades: Path, arguments: list[str], code: int, message: str) -> None:
    done = typed(*(one.replace("FILE", str(trades)) for one in arguments))
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert done.err.startswith("sash: ")
    assert done.err.count("\n") == 1
    debugged = typed(*(one.replace("FILE", str(trades)) for one in arguments), "--debug")
    assert debugged.code == code
    if code == 1:
        assert "Traceback (most recent call last)" in debugged.err


def test_a_bad_record_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("t,price\n1,2\n2,3,4\n")
    done = typed("sql", "SELECT sum(price) OVER (ORDER BY t) AS s FROM t", f"t={tmp_path / 't.csv'}")
    assert done.code == 1
    assert "malformed record at t.csv, record 2: it has 3 values, not 2" in done.err


def test_a_reader_that_leaves(trades: Path) -> None:
    program = [sys.executable, "-c", "import sys; from sash.cli.main import main; sys.stdin.read(); sys.exit(main())"]
    command = [*program, "sql", HIGH, f"trades={trades}"]
    pipe, surroundings = subprocess.PIPE, os.environ | SWITCHED_OFF
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=surroundings) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.communicate()[1] == b""
    assert process.returncode == 1


def test_without_typer() -> None:
    program = (
        "import sys; sys.modules['typer'] = None; from sash.cli.main import main; "
        "print(main(['info']), main(['--version']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"sash {sash.__version__}\n1 0\n"
    assert done.stderr == "sash: the commands need the package typer: pip install 'sash[cli]'\n"


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sash.cli.commands.environment", interrupted)
    done = typed("info")
    assert (done.code, done.err) == (entry.INTERRUPTED, "sash: interrupted\n")


def test_completion_knows_the_commands() -> None:
    more = {"_SASH_COMPLETE": "complete_bash", "COMP_WORDS": "sash str", "COMP_CWORD": "1"}
    assert in_a_process(**more).out.split() == ["structures"]
