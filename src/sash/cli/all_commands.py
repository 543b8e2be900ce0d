"""The app with the commands of all modules."""

from sash.cli import job_commands, state_commands
from sash.cli.commands import app

__all__ = ["app", "job_commands", "state_commands"]
