"""The command line. This module must import fast: `--version` and `--help` load no command (design §3)."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the `orchestra` program."""
    if sys.argv[1:] == ["--version"]:
        from orchestra import __version__

        sys.stdout.write(f"orchestra {__version__}\n")
        return
    from orchestra.cli.program import run

    sys.exit(run())
