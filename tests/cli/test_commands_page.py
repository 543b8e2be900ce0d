"""The commands of docs/commands.md print what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.typed import typed

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with its output."""
    found = [part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, _, output in found]


def narrow(line: str) -> str:
    """A line without what only fills it."""
    return re.sub(r"[━─]+", "─", re.sub(r"\s+", " ", line)).rstrip()


def matches(documented: str, printed: str) -> bool:
    """Is the output the one shown? A line that ends in … stands for one that begins like that, the line … for more.

    Tables are as wide as their cells, and some have the path of a directory: their widths are not compared.
    """
    expected, got = ([narrow(line) for line in text.rstrip().splitlines()] for text in (documented, printed))
    if expected[-1:] == ["…"]:
        expected = expected[:-1]
        got = got[: len(expected)]
    return len(expected) == len(got) and all(
        line.startswith(start[:-1]) if start.endswith("…") else line == start
        for start, line in zip(expected, got, strict=True)
    )


def run_blocks(text: str) -> int:
    """Run the blocks of a page: Python, job files, and commands, whose number it gives."""
    count = 0
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(block, {})
        elif language in ("toml", "yaml"):
            Path(f"job.{language}").write_text(block, "utf-8")
        elif language == "console":
            for command, documented in commands(block):
                program, *arguments = shlex.split(command)
                assert program == "sash"
                done = typed(*arguments, terminal=True)
                printed = done.out + done.err
                assert matches(documented, printed), f"$ {command}\n{printed}"
                count += 1
    return count


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_blocks(PAGE) == PAGE.count("\n$ ")


def test_the_job_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
    found = re.search(r"^orders = .*?^\)$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    section = text[text.index("## A job: ") :].partition("\n## ")[0]
    begun = section.replace("```python\n", f"```python\nimport pandas as pd\n{found[0]}\n", 1)
    assert run_blocks(begun) == section.count("\n$ ") == 3


def test_what_differs_is_found() -> None:
    assert matches("a\nb …\n", "a  \nb and more\n\n")
    assert not matches("a\nb …\n", "a\nc and more\n")
    assert not matches("a\n", "a\nb\n")
    assert matches("a\n…\n", "a\nb\nc\n")
    assert not matches("a\nx\n…\n", "a\nb\nc\n")
    assert commands("$ x\n1\n2\n$ y z\n") == [("x", "1\n2\n"), ("y z", "")]
