"""Every command as a user types it: in a pseudo-terminal, without colours if NO_COLOR is set, and in a pipe."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.cli.all_commands import app
from tests.cli.typed import in_a_process, in_a_terminal, typed

JOB = """\
source: {kind: parquet, path: rows.parquet}
query: {windows: 3, by: k, on: t, lateness: 0, aggregates: {high: max(x)}}
sink: {kind: parquet, path: results}
store: {kind: rocksdb, path: state}
options: {finish: false}
"""

TYPED = {
    "info": ([], "kernel cache"),
    "structures": ([], "DABALite"),
    "trace": (["DABA", "3,1"], "insert 1"),
    "new": (["rows.parquet"], "[query.aggregates]"),
    "run": (["job.yaml", "--dry-run"], "high  double"),
    "explain": (["job.yaml"], "high  double"),
    "lookup": (["job.yaml", "k=a"], "high"),
    "job-script": ([], "job_script.py"),
}
"""Arguments of commands, and what each prints. Commands that need more have tests of their own."""

IN_PROCESSES = {"info", "run"}
"""Commands whose pipe is one between processes; that of the others is in this process, which starts sooner."""

ELSEWHERE = {"backup", "bench", "inspect", "migrate", "restore", "sql", "ui", "warm"}
"""In test_bench, test_inspect, test_commands, test_operations and page.

`warm` compiles for minutes: below it gets a wrong name.
"""


@pytest.fixture
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"k": ["a", "b"], "t": [1, 2], "x": [3.0, 4.0]}), "rows.parquet")
    Path("job.yaml").write_text(JOB)
    assert typed("run", "job.yaml").code == 0


def test_no_command_is_left_out() -> None:
    names = {one.name or one.callback.__name__ for one in app.registered_commands if one.callback is not None}
    assert names == {*TYPED, *ELSEWHERE}


@pytest.mark.usefixtures("_job")
def test_in_a_terminal_and_in_a_pipe() -> None:
    for name, (arguments, expected) in TYPED.items():
        plain = in_a_terminal(name, *arguments, NO_COLOR="1")
        piped = (in_a_process if name in IN_PROCESSES else typed)(name, *arguments)
        assert plain.code == piped.code == 0, (name, plain.out, piped.err)
        assert expected in plain.out, name
        assert expected in piped.out, name
        assert piped.err == "", name
        assert "\x1b" not in piped.out, name
        assert not [code for code in ("\x1b[3", "\x1b[9", "\x1b[4") if code in plain.out], name


def test_errors_in_a_terminal() -> None:
    done = in_a_terminal("warm", "--only", "nothing like that")
    assert (done.code, done.out.count("\n")) == (2, 1)
    assert done.out.startswith("sash: --only: no task name contains")


def test_completion_of_options_and_its_installation(tmp_path: Path) -> None:
    more = {"_SASH_COMPLETE": "complete_bash", "COMP_WORDS": "sash run --eng", "COMP_CWORD": "2"}
    assert in_a_process(**more).out.split() == ["--engine"]
    home = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = in_a_process("--install-completion", "bash", **home)
    assert done.code == 0, done.err
    (script,) = [path for path in tmp_path.rglob("*") if path.is_file() and "_SASH_COMPLETE" in path.read_text()]
    assert "complete_bash" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text() or script.name == ".bashrc"


@pytest.mark.usefixtures("_job")
def test_json_of_a_dry_run_is_json() -> None:
    assert json.loads(in_a_terminal("run", "job.yaml", "--dry-run", "--json").out)["schema"]["high"] == "double"
