"""The command line. This module must import fast: `--version` and `--help` load no command (U-21).

Nothing may be imported here but what first.py may (its rule 1).
"""

import sys

from orchestra.cli.first import dump_no_core, leave_folder


def main() -> None:
    """The entry point of the `orchestra` program."""
    leave_folder()  # before anything else is imported
    dump_no_core()
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from orchestra import __version__

        try:
            sys.stdout.write(f"orchestra {__version__}\n")
            sys.stdout.flush()
        except OSError as error:
            sys.exit(f"orchestra: {error.strerror}")
        return
    from orchestra.core.collector import relax

    relax()  # first of all: loading the program makes objects, too
    try:
        from orchestra.cli.program import run

        code = run()
    except KeyboardInterrupt:  # while the program was being loaded: nothing has begun
        sys.stderr.write("interrupted\n")
        code = 130
    sys.exit(code)
