"""The app with the commands of all modules."""

from sash.cli import bench as bench_command
from sash.cli import job_commands, ui_commands
from sash.cli import store_commands as state_commands
from sash.cli.commands import app

__all__ = ["app", "bench_command", "job_commands", "state_commands", "ui_commands"]
