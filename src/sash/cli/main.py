"""The command `sash`: runs commands, prints errors in one line, and returns exit codes.

0    done
1    the work failed: a file that cannot be read, rows that do not fit, a store in use
2    wrong usage: of the command, or a mistake in a job file
130  interrupted
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from sash.cli.environment import version
from sash.cli.terminal import escaped, write_error

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130

LONG = 1200
"""Characters of a message. Longer ones quote a value that nobody reads: they lose the middle."""


class WrongUsage(Exception):
    """A command or a job file that cannot be understood."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        sys.stdout.write(f"sash {version('sash')}\n")
        return 0
    try:
        app = all_commands()
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        return _fail(f"the commands need the package {error.name}: pip install 'sash[cli]'")
    debug = "--debug" in given
    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = _warn  # type: ignore[assignment]
        return _run(app, [one for one in given if one != "--debug"], debug)


def all_commands() -> Any:
    """The app with the commands of all modules. Raises ModuleNotFoundError without the packages of the extra `cli`."""
    from sash.cli import bench, job_commands, store_commands  # noqa: F401 (they add their commands)
    from sash.cli.commands import app

    return app


def _run(app: Any, given: list[str], debug: bool) -> int:
    import typer

    # depending on its version, typer has its own copy of click or uses the package: find the base of errors by name
    click_error: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
    try:
        code = app(given, prog_name="sash", standalone_mode=False)
        sys.stdout.flush()
        return _fail("interrupted", INTERRUPTED) if code == INTERRUPTED else int(code or 0)
    except click_error as error:
        context: Any = getattr(error, "ctx", None)
        more = f" (see {context.command_path} --help)" if context is not None else ""
        return _fail(f"{error.format_message()}{more}", WRONG_USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # as in `sash structures | head`: the reader has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if debug:
            write_error(traceback.format_exc().rstrip())
        return _fail(_message(error), WRONG_USAGE if isinstance(error, WrongUsage) else FAILED)


def _message(error: Exception) -> str:
    """An error in one line; with its type, if it is not one that sash raises for users."""
    text = " ".join(str(error.args[0] if isinstance(error, KeyError) and error.args else error).split())
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.strerror}: {error.filename}"
    if len(text) > LONG:
        text = f"{text[: LONG // 2]} … {text[-LONG // 4 :]}"
    is_own = type(error).__module__.startswith("sash.")
    if text and (is_own or isinstance(error, ValueError | TypeError | OSError | ImportError)):
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _fail(text: str, code: int = FAILED) -> int:
    write_error(f"sash: {escaped(text)}")
    return code


def _warn(message: Warning | str, *_where: Any) -> None:
    write_error(f"sash: warning: {message}")
