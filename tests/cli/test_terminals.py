"""Every command as a user types it: in a pseudo-terminal, without colours if NO_COLOR is set, and in a pipe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.cli import terminal as escaped_text
from sash.cli.job_file import read_job
from sash.cli.main import all_commands
from tests.cli.typed import Done, in_a_process, in_a_terminal, typed

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
    names = {
        one.name or one.callback.__name__ for one in all_commands().registered_commands if one.callback is not None
    }
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


EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\r\nQ\u202eevil\x7f"
"""What a terminal would obey: its title, colours, a cleared screen, a new line, reversed text."""


def assert_harmless(done: Done) -> None:
    text = done.out + done.err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text), text
    assert "\nQ" not in text


@pytest.fixture
def _evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"k": [EVIL, "a"], "t": [1, 2], EVIL: [EVIL, "x"]}), "rows.parquet")
    Path("job.yaml").write_text(JOB.replace("max(x)", "count(*)"))
    assert typed("run", "job.yaml").code == 0


@pytest.mark.usefixtures("_evil")
def test_values_and_names_do_not_control_the_terminal() -> None:
    quoted = EVIL.replace('"', '""')
    sql = f'SELECT k, "{quoted}", count(*) OVER (PARTITION BY k ORDER BY t) AS "n{quoted}" FROM r'
    commands = [
        ("sql", sql, "r=rows.parquet"),
        ("lookup", "job.yaml", f"k={EVIL}"),
        ("inspect", "state"),
        ("run", "job.yaml", "--set", "sink.kind=console", "--set", "store.path=other"),
        ("run", "job.yaml", "--dry-run"),
        ("explain", "job.yaml"),
        ("new", "rows.parquet"),
    ]
    for command in commands:
        done = typed(*command, terminal=True)
        assert done.code == 0, done.err
        assert_harmless(done)
        for more in [["--json"]] if command[0] not in ("run", "new", "explain") else []:
            assert_harmless(typed(*command, *more, terminal=True))
    for command in commands[:3]:
        assert "\\x1b]0;owned" in typed(*command, terminal=True).out, command
    assert json.loads(typed(*commands[1], "--json", terminal=True).out)["k"] == EVIL
    assert json.loads(typed(*commands[1], "--json").out)["k"] == EVIL
    assert EVIL.replace("\r\n", "\n") in typed(*commands[0]).out.replace("\r\n", "\n")  # data in a pipe is as it is


@pytest.mark.usefixtures("_evil")
def test_errors_do_not_control_the_terminal() -> None:
    Path("evil.toml").write_text(f"[{json.dumps(EVIL)}]\nx = 1\n")
    for command in [
        ("sql", f'SELECT "{EVIL}x" FROM r', "r=rows.parquet"),
        ("sql", "SELECT 1", f"r={EVIL}.parquet"),
        ("sql", "SELECT 1", EVIL),
        ("lookup", "job.yaml", f"{EVIL}=1"),
        ("inspect", EVIL),
        ("run", f"{EVIL}.toml"),
        ("run", "evil.toml"),
        ("run", "job.yaml", "--set", f"query.by={EVIL}"),
        ("run", "job.yaml", "--engine", EVIL),
        ("new", EVIL),
        ("trace", EVIL, "1,2"),
        ("bench", EVIL),
        ("warm", "--only", EVIL),
        (EVIL,),
        ("run", "job.yaml", f"--{EVIL}"),
        ("--debug", "inspect", EVIL),
    ]:
        for terminal in (True, False):
            done = typed(*command, terminal=terminal)
            assert done.code in (1, 2), command
            assert_harmless(done)
    assert "\\x1b]0;owned" in done.err


def test_a_failure_and_paths_do_not_control_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of a row that fails has its value; the commands that copy state have the paths."""
    monkeypatch.chdir(tmp_path)
    title = EVIL.replace("/", "")
    pq.write_table(pa.table({"k": ["a", "b"], "t": [1, 2], "x": [EVIL, "4"]}), "rows.parquet")
    Path("job.yaml").write_text(
        JOB.replace("max(x)", "max(cast(x as double))").replace("finish: false", "finish: false, failed: side")
    )
    Path("other.yaml").write_text(Path("job.yaml").read_text().replace("state", "other").replace("results", "more"))
    for command in [
        ("run", "job.yaml"),
        ("backup", "state", f"{title}.copy"),
        ("restore", f"{title}.copy", f"{title}.store"),
        ("migrate", "job.yaml", "other.yaml"),
    ]:
        done = typed(*command, terminal=True)
        assert done.code == 0, done.err
        assert_harmless(done)
        assert "\\x1b]0;owned" in done.out + done.err or command[0] == "migrate"


def test_invisible_marks_that_reorder_or_hide_text_are_escaped() -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x2028, 0x202E, 0x2066, 0x206F, 0xFFF9):
        assert escaped_text.escaped(chr(code)).isascii()
        assert len(escaped_text.escaped(chr(code))) > 1
    assert escaped_text.escaped("日本 é 👩\u200d🚀") == "日本 é 👩\u200d🚀"


def test_a_trace_does_not_control_the_terminal() -> None:
    for structure in ("DABA", "FlatFAT", "FiBA"):
        done = typed("trace", structure, "\x1b[31ma,b\x9b,c", "--aggregate", "max", terminal=True)
        assert_harmless(done)


@pytest.mark.usefixtures("_evil")
def test_a_column_name_adds_nothing_to_a_new_job() -> None:
    name = "x\n[sink]\nkind = 'console'\nsink: {kind: console}\x7f"
    pq.write_table(pa.table({name: ["a"], "t": [1]}), "names.parquet")
    for suffix in ("toml", "yaml"):
        assert typed("new", "names.parquet", "--out", f"made.{suffix}").code == 0
        job = read_job(f"made.{suffix}")
        assert (job.get("sink", "kind"), job.get("query", "by")) == ("parquet", name)


def test_all_output_goes_through_one_module() -> None:
    """The others name no stream to write to."""
    folder = Path(escaped_text.__file__).parent
    found = {
        path.name
        for path in folder.rglob("*.py")
        if re.search(r"(?<![.\w])print\(|sys\.std(out|err)\.write|print_exc", path.read_text())
    }
    assert found <= {"terminal.py", *STATIC}


STATIC = ("main.py", "commands.py", "job_commands.py")
"""These also write versions, help, numbers, and the address of the page."""
