"""The command line: ``setwise-research reproduce`` and ``benchmark-suite``."""

import sys


def main() -> None:
    """Entry of the console script: runs the command line and ends the process with its exit code."""
    from setwise_research.cli.app import run

    sys.exit(run())


__all__ = ["main"]
