"""The command line: ``setwise inspect``, ``train``, ``predict`` and ``evaluate``."""

import sys


def main() -> None:
    """Entry of the console script: runs the command line and ends the process with its exit code."""
    try:
        from setwise.cli.app import run
    except ImportError as error:
        sys.exit(_without_extra(error))
    sys.exit(run())


def _without_extra(error: ImportError) -> int:
    """Say in one line what to install; 2, as for every error of the user's to mend."""
    sys.stderr.write(f"setwise: error: {error}\n")
    return 2


__all__ = ["main"]
