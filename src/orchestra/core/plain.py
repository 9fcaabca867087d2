"""Plain data from a person's program: whether it fits a type, and whether JSON can record it. Pure."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from orchestra.core.text import misfit_text


def fitted(values: object, kind: Any) -> Any:
    """These values as the type `kind`; ValueError, in plain words, if they do not fit or JSON cannot record them."""
    try:
        plain = msgspec.to_builtins(values)
        found = msgspec.convert(plain, kind)
    except (msgspec.ValidationError, TypeError) as wrong:
        raise ValueError(misfit_text(wrong)) from wrong
    if unfit := no_json(plain):
        raise ValueError(unfit)
    return found


def no_json(value: Any, place: str = "") -> str:
    """Why plain data cannot be recorded as JSON, with the place in it; empty if nothing is wrong.

    JSON has no NaN and no infinity. A text with half a character (a lone surrogate) has no bytes.
    """
    where = f"{place}: " if place else ""
    if isinstance(value, str):
        if value.isascii():
            return ""
        half = next((one for one in value if "\ud800" <= one <= "\udfff"), "")
        return f"{where}its text has half a character ({half!a}), which cannot be written" if half else ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{where}{value} is no number of JSON"
    if isinstance(value, dict):
        for key, part in value.items():
            if wrong := no_json(key, place) or no_json(part, f"{place}.{key}" if place else str(key)):
                return wrong
        return ""
    if isinstance(value, list | tuple):
        return next(filter(None, (no_json(part, f"{place}[{n}]") for n, part in enumerate(value))), "")
    return ""
