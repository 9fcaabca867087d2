"""The command line. This module must import fast: `--version` and `--help` load no command (U-21).

Only modules that first.py may import (its rule 1) may be imported here.
"""

import sys

from orchestra.cli.first import dump_no_core, leave_folder, open_input


def main() -> None:
    """The entry point of the `orchestra` program."""
    leave_folder()  # before anything else is imported
    dump_no_core()
    open_input()
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from orchestra import __version__

        try:
            sys.stdout.write(f"orchestra {__version__}\n")
            sys.stdout.flush()
        except OSError as error:
            sys.exit(f"orchestra: {error.strerror}")
        return
    from orchestra.core.collector import relax

    relax()  # before the program is loaded, which makes many objects
    try:
        from orchestra.cli.program import run

        code = run()
    except KeyboardInterrupt:  # during loading: nothing has begun
        sys.stderr.write("interrupted\n")
        code = 130
    sys.exit(code)
