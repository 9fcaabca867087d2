"""Which files are tests, by the names that the big languages and their tools use. Pure.

Rules
1. Everything in a folder of tests counts, because a test's data matters as much as its code. Only a README does not.
2. Elsewhere the first or the last word of a source file's name decides: `test_calc.py`, `calc.spec.ts`,
   `CalcTest.java`; not `latest.py`, not `contest.py`.
3. `spec` is also the word for a specification, so in a folder of that name only source files count.
"""

from __future__ import annotations

from orchestra.core.text import words

_TESTS = {"test", "tests", "unittest", "unittests", "testcase"}
_FOLDERS = _TESTS | {"testdata", "androidtest"}
_SPECS = {"spec", "specs"}
_SUFFIXES = """
    py js jsx ts tsx mjs cjs mts cts vue svelte coffee java kt kts scala groovy clj cljs cljc cs fs vb go rs zig nim
    c cc cpp cxx h hpp m mm swift d dart rb cr php lua pl pm r jl ex exs erl hs ml elm sql robot sh bash zsh fish ps1
"""
_SOURCE = frozenset(_SUFFIXES.split())
_ALWAYS = {"bats", "feature", "snap"}  # files of test tools, whatever their name


def is_test(path: str) -> bool:
    """Whether the path is a test or part of one."""
    *folders, name = path.split("/")
    stem, dot, end = name.rpartition(".")
    suffix, said = (end.lower(), words(stem)) if dot else ("", words(name))
    if suffix in _ALWAYS:
        return True
    if any(not _FOLDERS.isdisjoint(words(folder)) for folder in folders):  # rule 1
        return said[:1] != ["readme"]
    if suffix not in _SOURCE or not said:
        return False
    if any(folder.lower() in _SPECS for folder in folders):  # rule 3
        return True
    last = _TESTS | _SPECS | ({"it"} if suffix in ("java", "kt") else set())
    return said[0] in _TESTS or said[-1] in last
