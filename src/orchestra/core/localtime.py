"""Recorded moments for people: in the time of the person's own zone, which is always named. Files keep UTC."""

from __future__ import annotations

import itertools
import re
from datetime import datetime

_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z")
_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def local(moment: str) -> str:
    """A recorded moment as date, time and zone; a text that is no moment as it is."""
    return _shown(moment, "%Y-%m-%d %H:%M:%S %Z")


def local_time(moment: str) -> str:
    """The time of day of a recorded moment, and the zone."""
    return _shown(moment, "%H:%M:%S %Z")


def local_minute(moment: str) -> str:
    """Date, hour and minute of a recorded moment, and the zone, for tables."""
    return _shown(moment, "%Y-%m-%d %H:%M %Z")


def localised(line: str) -> str:
    """A line of a report.md with its own moments (its start, the rows of its events) in the person's zone."""
    if not line.startswith(("- started ", "| 2")):
        return line
    return _MOMENT.sub(lambda found: local(found[0]), line, count=2 if line.startswith("-") else 1)


def took(seconds: float) -> str:
    """A duration in two units at most: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"))
    for (size, unit), (smaller, below) in itertools.pairwise(units):
        if seconds >= size:
            rest = int(seconds % size // smaller)
            return f"{int(seconds // size)} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{int(seconds)} s"


def _shown(moment: str, form: str) -> str:
    try:
        return datetime.fromisoformat(moment).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return moment
