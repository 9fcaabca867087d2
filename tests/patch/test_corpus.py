"""Damaged diffs, the way models damage them: right or refused, never wrong.

Correct diffs between random program-like texts are damaged in every class below. Each class says how many must still be
applied right; the rest must be refused. A single wrong result fails.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from orchestra.core.work import Refusal

from .support import canonical, lines_of, make_diff, patch_of, patched

Damage = Callable[[str, random.Random], str]
SAMPLES = 60
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "count",
    "total",
    "index",
    "value",
    "name",
    "path",
    "node",
    "edge",
    "left",
    "right",
    "first",
    "last",
    "open",
    "close",
    "read",
    "write",
]


def program(rng: random.Random) -> list[str]:
    """Functions with unlike names and bodies, and the lines every file repeats: blanks, `return`, `}`."""
    lines: list[str] = ["import os", ""]
    for number in range(rng.randint(2, 6)):
        lines.append(f"def {rng.choice(WORDS)}_{number}({rng.choice(WORDS)}):")
        for _ in range(rng.randint(2, 6)):
            kind = rng.random()
            if kind < 0.15:
                lines.append("")
            elif kind < 0.3:
                lines.append("    }")
            elif kind < 0.45:
                lines.append("    value = read(0)  # as-is")
            else:
                lines.append(f"    {rng.choice(WORDS)} = {rng.choice(WORDS)}({rng.randint(0, 99)})")
        lines += ["    return None", ""]
        if rng.random() < 0.3:
            lines += ["if value:", "    write(value)", "    close()", ""]
    return lines


def edited(lines: list[str], rng: random.Random) -> list[str]:
    new = list(lines)
    for number in range(rng.randint(1, 3)):
        at = rng.randrange(len(new))
        fresh = [f"    new_{number}_{i} = {rng.choice(WORDS)}" for i in range(rng.randint(1, 3))]
        new[at : at + rng.randint(0, 2)] = fresh
    return new


def body(diff: str, change: Callable[[str], str]) -> str:
    """Change the lines of the hunks, not the headers."""
    out, inside = [], False
    for line in diff.split("\n")[:-1]:
        if line.startswith("@@"):
            inside = True
            out.append(line)
        else:
            out.append(change(line) if inside else line)
    return "\n".join(out) + "\n"


def numbers(diff: str, change: Callable[[list[int]], list[int]]) -> str:
    def redo(found: re.Match[str]) -> str:
        old, count, new, grown = change([int(part) if part else 1 for part in found.groups()])
        return f"@@ -{old},{count} +{new},{grown} @@"

    return re.sub(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", redo, diff)


def trimmed(diff: str, *, front: int, back: int) -> str:
    """Drop outer context lines of every hunk, as far as there are any."""
    head, *hunks = re.split(r"(?m)^(?=@@)", diff)
    out = [head]
    for hunk in hunks:
        start, *lines = hunk.removesuffix("\n").split("\n")
        for _ in range(front):
            if len(lines) > 2 and lines[0].startswith(" ") and lines[1].startswith(" "):
                lines.pop(0)
        for _ in range(back):
            if len(lines) > 2 and lines[-1].startswith(" ") and lines[-2].startswith(" "):
                lines.pop()
        out.append("\n".join([start, *lines]) + "\n")
    return "".join(out)


def one_line(diff: str, rng: random.Random, *, wanted: str, change: Callable[[str], list[str]]) -> str:
    lines = diff.split("\n")
    places = [i for i, line in enumerate(lines) if re.match(wanted, line)]
    if places:
        at = rng.choice(places)
        lines[at : at + 1] = change(lines[at])
    return "\n".join(lines)


def without_a_middle_line(diff: str, rng: random.Random) -> str:
    """Drop a context line between context lines. (Next to a change nobody could tell: what is left may fit exactly.)"""
    lines = diff.split("\n")
    around = [i for i in range(1, len(lines) - 1) if all(lines[j].startswith(" ") for j in (i - 1, i, i + 1))]
    if around:
        del lines[rng.choice(around)]
    return "\n".join(lines)


def dedented(diff: str) -> str:
    """Take four blanks off every hunk all of whose lines have them. (Else blanks of added lines are lost for good.)"""
    head, *hunks = re.split(r"(?m)^(?=@@)", diff)
    for i, hunk in enumerate(hunks):
        if not re.search(r"(?m)^[ +-](?!    )\S", hunk) and not re.search(r"(?m)^[ +-] {1,3}\S", hunk):
            hunks[i] = re.sub(r"(?m)^([ +-])    ", r"\1", hunk)
    return head + "".join(hunks)


def misspelt(line: str) -> list[str]:
    return [line[:-1] + ("x" if not line.endswith("x") else "y")]


# name -> (damage, how many of 100 must be applied right)
CLASSES: dict[str, tuple[Damage, int]] = {
    "none": (lambda diff, _: diff, 100),
    "wrong counts": (
        lambda diff, rng: numbers(diff, lambda n: [n[0], n[1] + rng.randint(1, 4), n[2], n[3] + rng.randint(1, 4)]),
        100,
    ),
    "counts too small": (lambda diff, _: numbers(diff, lambda n: [n[0], 1, n[2], 1]), 100),
    "wrong line numbers": (
        lambda diff, rng: numbers(diff, lambda n: [n[0] + 500, n[1], n[2] + rng.randint(1, 500), n[3]]),
        90,
    ),
    "counts and line numbers": (
        lambda diff, _: numbers(diff, lambda n: [n[0] + 70, n[1] + 2, n[2] + 71, n[3] + 1]),
        80,
    ),
    "near line numbers": (lambda diff, rng: numbers(diff, lambda n: [n[0] + rng.randint(1, 3), n[1], n[2], n[3]]), 90),
    "no numbers": (lambda diff, _: re.sub(r"(?m)^@@.*$", "@@ @@", diff), 90),
    "dots for numbers": (lambda diff, _: re.sub(r"(?m)^@@.*$", "@@ ... @@", diff), 90),
    "stripped trailing blanks": (lambda diff, _: "\n".join(line.rstrip() for line in diff.split("\n")), 100),
    "added trailing blanks": (
        lambda diff, _: body(diff, lambda line: f"{line}  " if line.startswith(" ") else line),
        100,
    ),
    "no a and b": (lambda diff, _: re.sub(r"(?m)^(--- |\+\+\+ |diff --git )a/|(?<= )b/(?=f\.txt)", r"\1", diff), 100),
    "no git line": (lambda diff, _: diff.split("\n", 1)[1], 100),
    "crlf patch": (lambda diff, _: diff.replace("\n", "\r\n"), 100),
    "fenced": (lambda diff, _: f"```diff\n{diff}```\n", 100),
    "prose around": (lambda diff, _: f"Here is the change:\n\n{diff}\nI hope it helps.\n", 95),
    "blank line below": (lambda diff, _: f"{diff}\n\n", 100),
    "less context": (lambda diff, _: trimmed(diff, front=2, back=2), 60),
    "no context above": (lambda diff, _: trimmed(diff, front=3, back=0), 70),
    "wrong outer line": (lambda diff, rng: re.sub(r"(?m)^(@@.*\n) (?=.*\n [^\n])", r"\1 zz", diff), 80),
    "misspelt context": (lambda diff, rng: one_line(diff, rng, wanted=r" +\w+ = \w+\(\d+\)$", change=misspelt), 80),
    "lost prefixes": (lambda diff, _: body(diff, lambda line: line.removeprefix(" ")), 95),
    "whole hunk dedented": (lambda diff, _: dedented(diff), 95),
    "whole hunk indented": (lambda diff, _: body(diff, lambda line: re.sub(r"^([ +-])(?=.)", r"\1    ", line)), 90),
    "missing middle line": (without_a_middle_line, 50),
    "dots in context": (lambda diff, rng: one_line(diff, rng, wanted=r" .*\w", change=lambda _: [" ..."]), 40),
    "smart quotes": (
        lambda diff, _: body(diff, lambda line: line.replace("-", "–") if line.startswith(" ") else line),
        100,
    ),
}


def outcomes(name: str, *, ending: str = "\n", final: bool = True) -> tuple[int, int, list[str]]:
    """How many damaged diffs were applied right, how many refused, and the wrong ones."""
    damage, _ = CLASSES[name]
    right, refused, wrong = 0, 0, []
    for seed in range(SAMPLES):
        rng = random.Random(f"{name}/{seed}")
        lines = program(rng)
        after = edited(lines, rng)
        old, new = ("\n".join(text) + "\n" * final for text in (lines, after))
        damaged = damage(make_diff("f.txt", old, new), rng)
        result = patched(damaged, old.replace("\n", ending))
        if isinstance(result, Refusal):
            refused += 1
        elif result == new.replace("\n", ending).encode():
            right += 1
        else:
            wrong.append(f"seed {seed}\n{damaged}\n{result.decode()}")
    return right, refused, wrong


@pytest.mark.parametrize("name", CLASSES)
def test_damaged_diffs_are_applied_right_or_refused(name: str) -> None:
    right, refused, wrong = outcomes(name)
    assert not wrong, wrong[0]
    assert right + refused == SAMPLES
    assert right * 100 >= CLASSES[name][1] * SAMPLES, f"{right} of {SAMPLES} right"


@pytest.mark.parametrize(
    "name", ["none", "wrong counts", "wrong line numbers", "crlf patch", "stripped trailing blanks", "less context"]
)
def test_a_crlf_file_fares_no_worse(name: str) -> None:
    right, _, wrong = outcomes(name, ending="\r\n")
    assert not wrong, wrong[0]
    assert right * 100 >= CLASSES[name][1] * SAMPLES


@pytest.mark.parametrize("name", ["none", "wrong counts", "no numbers"])
def test_a_missing_final_newline_survives(name: str) -> None:
    right, _, wrong = outcomes(name, final=False)
    assert not wrong, wrong[0]
    assert right * 100 >= CLASSES[name][1] * SAMPLES


def test_the_damage_is_the_same_inside_a_reply() -> None:
    rng = random.Random(7)
    lines = program(rng)
    old, new = "\n".join(lines) + "\n", "\n".join(edited(lines, rng)) + "\n"
    for name in ("none", "wrong counts", "no numbers", "stripped trailing blanks", "fenced"):
        diff = CLASSES[name][0](make_diff("f.txt", old, new), rng)
        assert patched(patch_of(canonical(diff)).diff, old) == new.encode()


def test_the_corpus_is_what_it_says() -> None:
    """The damages do damage, and the texts repeat lines: an easy corpus would prove nothing."""
    rng = random.Random(1)
    programs = [program(rng) for _ in range(SAMPLES)]
    assert sum(len(set(lines)) < len(lines) - 4 for lines in programs) > SAMPLES * 0.8
    diffs = [make_diff("f.txt", "\n".join(lines), "\n".join(edited(lines, rng))) for lines in programs]
    for name, (damage, _) in CLASSES.items():
        done = sum(damage(diff, rng) != diff for diff in diffs)
        assert done > SAMPLES * 0.15 or name == "none", f"{name}: {done} of {SAMPLES} damaged"
    assert lines_of("a\nb") == ["a\n", "b"]
