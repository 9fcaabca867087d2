"""docs/spec, read: the ids that it defines."""

from __future__ import annotations

import re
from pathlib import Path

SPEC = Path(__file__).parents[2] / "docs" / "spec"
# An id stands at the start of a list item, in bold, or at the start of a heading (a whole section of measured notes).
_DEFINED = re.compile(r"^(?:- \*\*([A-Z]+\d?-[\d.]+)\*\*|#+ (M[MS]-\d+) )", re.MULTILINE)


def defined() -> list[str]:
    """Every id of docs/spec, in order; one that is defined twice is there twice."""
    return [
        item or section
        for path in sorted(SPEC.glob("*.md"))
        for item, section in _DEFINED.findall(path.read_text(encoding="utf-8"))
    ]


def requirements(spec: str) -> list[str]:
    """The requirement lines of one specification: "S1" gives S1-01, S1-02, …"""
    return [name for name in defined() if name.startswith(f"{spec}-")]


def sections(spec: str) -> set[str]:
    """The numbered sections of one specification: "S1" gives 2, 3, 3.1, …"""
    text = (SPEC / f"{spec.lower()}.md").read_text(encoding="utf-8")
    return set(re.findall(r"^#+ §([\d.]+) ", text, re.MULTILINE))
