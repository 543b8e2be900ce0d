"""The app with the commands of all modules."""

from typing import Any

from sash.cli import bench_command, job_commands, state_commands, ui_commands
from sash.cli.commands import app

ORDER = ("run", "new", "explain", "sql", "inspect", "lookup", "ui", "migrate", "backup", "restore", "bench", "warm")
"""The commands by use, as `sash --help` lists them; others follow."""


def _place(command: Any) -> int:
    name = command.name or command.callback.__name__
    return ORDER.index(name) if name in ORDER else len(ORDER)


app.registered_commands.sort(key=_place)

__all__ = ["app", "bench_command", "job_commands", "state_commands", "ui_commands"]
