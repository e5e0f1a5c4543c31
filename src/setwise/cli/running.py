"""Error handling of a command line: one line on stderr, exit code 2, no traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence

import typer

from setwise._checks import InputError

_DISK = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT)
INTERRUPTED = 130  # what shells give for a process ended by Ctrl-C
USAGE_ERROR = 2


def run_app(app: typer.Typer, program: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Args:
        app: Its commands.
        program: Its name, which begins every line on stderr.
        arguments: Those after the program's name; by default the process's own.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    usage: type[Exception] = typer.BadParameter.__mro__[1]  # Typer's usage errors: unknown options, missing values
    try:
        code = app(args=given, prog_name=program, standalone_mode=False)
        sys.stdout.flush()  # a full disk behind it is an error, and no remark at the end of the process
    except (KeyboardInterrupt, typer.Abort):
        return say(program, "stopped", INTERRUPTED)
    except typer.Exit as exit_:
        return exit_.exit_code
    except usage as error:
        return say(program, f"error: {error.format_message()}", USAGE_ERROR)  # type: ignore[attr-defined]
    except (InputError, OSError, ImportError) as error:
        return say(program, f"error: {_os_error(error) if isinstance(error, OSError) else error}", USAGE_ERROR)
    except TypeError as error:
        # The checks at the edge say "Expected `name` to be"; any other TypeError is a fault of ours and shows itself.
        if not str(error).startswith("Expected "):
            raise
        return say(program, f"error: {error}", USAGE_ERROR)
    return code if isinstance(code, int) else 0


def say(program: str, message: str, code: int) -> int:
    """Say one line on stderr, and give the exit code back."""
    sys.stderr.write(f"{program}: {' '.join(message.split())}\n")
    return code


def _os_error(error: OSError) -> str:
    """What is wrong, and with which file."""
    if error.strerror is None:
        return str(error)
    if error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    if error.errno not in _DISK:
        return error.strerror
    with contextlib.suppress(OSError):  # what is left in the buffer would fail again when the process ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"{error.strerror}: standard output"  # all other writers give the name of their file
