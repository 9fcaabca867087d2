"""`python -m orchestra` is `orchestra`."""

from orchestra.cli import main

main()
