"""Patches of real commits, damaged the way models damage them, and what became of each. For a test and a benchmark.

Rules
1. A sample is a few text files of one commit: their bytes before and after, and the diff that git makes of them.
2. A kind of damage changes the diff (some kinds: the files) and says nothing of what the right answer is. The right
   answer is always the commit's own bytes, also where a damage leaves no way to know them.
3. A damage that finds nothing to damage in a sample gives None; that sample does not count for that kind.
4. Outcomes: `right` (the commit's bytes), `wrong` (other bytes), `asked` (worked out, but only a person may say yes),
   `refused`. Nothing is written anywhere.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from orchestra.core.work import Refusal
from orchestra.patch.result import Patch, Unparsable, parse_result

from .support import canonical, make_diff, prepare

Outcome = Literal["right", "asked", "refused", "wrong"]

MAX_FILES = 3  # of a commit in one sample
MAX_CHANGED = 120  # lines of a sample: models write small patches
MAX_BYTES = 200_000  # of a file


class Sample(msgspec.Struct, frozen=True):
    """Part of a commit. `files`: path -> (bytes before, bytes after), None for no file."""

    commit: str
    files: dict[str, tuple[bytes | None, bytes | None]]
    diff: str


# --- samples from a repository's history ------------------------------------------------------------------------------


class _Change(msgspec.Struct, frozen=True):
    """One file of a commit, as `git log --raw` says it."""

    path: str
    old: str
    new: str


def samples(repository: Path, *, count: int, seed: str, oldest: int = 0) -> list[Sample]:
    """`count` samples, always the same ones for one history; fewer if it has not that many. `oldest`: only from the
    first so many commits."""
    rng = random.Random(seed)
    found: list[Sample] = []
    commits = list(_commits(repository).items())[-oldest:]
    rng.shuffle(commits)
    for commit, changes in commits:
        changes = [change for change in changes if change.path.isprintable()]
        rng.shuffle(changes)
        if sample := _sample(repository, commit, changes[:MAX_FILES]):
            found.append(sample)
        if len(found) == count:
            break
    return found


def _commits(repository: Path) -> dict[str, list[_Change]]:
    commits: dict[str, list[_Change]] = {}
    options = ("--no-merges", "--no-renames", "--raw", "--no-abbrev", "-z", "--format=%x01%H")
    log = _git(repository, "log", *options).decode("utf-8", "replace")
    for entry in log.split("\x01")[1:]:
        commit, *fields = entry.strip("\0\n").split("\0")
        pairs = zip(fields[::2], fields[1::2], strict=False)
        commits[commit] = [
            _Change(path, *raw.split(" ")[2:4])
            for raw, path in pairs
            if set(raw.lstrip("\n:").split(" ")[:2]) <= {"100644", "100755", "000000"}
        ]
    return commits


def _sample(repository: Path, commit: str, changes: Sequence[_Change]) -> Sample | None:
    files: dict[str, tuple[bytes | None, bytes | None]] = {}
    for change in changes:
        before, after = (_blob(repository, name) for name in (change.old, change.new))
        for data in (before, after):
            if data is not None and (b"\0" in data or len(data) > MAX_BYTES or not _is_text(data)):
                return None
        files[change.path] = (before, after)
    if not files:
        return None
    paths = [f":(literal){path}" for path in files]
    options = ("--root", "-p", "-U3", "--no-renames", "--no-commit-id", "--no-ext-diff", "--no-textconv")
    diff = _git(repository, "-c", "core.quotePath=false", "diff-tree", *options, commit, "--", *paths).decode()
    changed = sum(line[:1] in ("+", "-") for line in diff.split("\n"))
    return Sample(commit, files, diff) if diff and changed <= MAX_CHANGED else None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _blob(repository: Path, name: str) -> bytes | None:
    return None if set(name) == {"0"} else _git(repository, "cat-file", "blob", name)


def _git(repository: Path, *words: str) -> bytes:
    done = subprocess.run(("git", "-C", str(repository), *words), capture_output=True, check=True)
    return done.stdout


# --- the diff in pieces -----------------------------------------------------------------------------------------------


class Part:
    """One file of a diff, taken apart so that it can be damaged: its header lines and its hunks, `@@` line first."""

    def __init__(self, text: str) -> None:
        head, *hunks = re.split(r"(?m)^(?=@@ )", text)
        self.header = head.split("\n")[:-1]
        self.hunks = [hunk.split("\n")[:-1] for hunk in hunks]

    def text(self) -> str:
        return "".join(f"{line}\n" for line in [*self.header, *(line for hunk in self.hunks for line in hunk)])


def _parts(diff: str) -> list[Part]:
    return [Part(text) for text in re.split(r"(?m)^(?=diff --git )", diff) if text]


def _joined(parts: Iterable[Part]) -> str:
    return "".join(part.text() for part in parts)


Damage = Callable[[Sample, random.Random], Sample | None]
LineChange = Callable[[str, random.Random], str]
HunkChange = Callable[[list[str], random.Random], list[str]]


def _by_hunk(change: HunkChange) -> Damage:
    """A damage of every hunk."""

    def damage(sample: Sample, rng: random.Random) -> Sample | None:
        parts = _parts(sample.diff)
        for part in parts:
            part.hunks = [change(hunk, rng) for hunk in part.hunks]
        return _other(sample, _joined(parts))

    return damage


def _by_one_hunk(change: HunkChange) -> Damage:
    """A slip: a damage of one hunk, of those it can damage."""

    def damage(sample: Sample, rng: random.Random) -> Sample | None:
        parts = _parts(sample.diff)
        places = [(part, i) for part in parts for i in range(len(part.hunks))]
        rng.shuffle(places)
        for part, i in places:
            damaged = change(part.hunks[i], rng)
            if damaged != part.hunks[i]:
                part.hunks[i] = damaged
                return _other(sample, _joined(parts))
        return None

    return damage


def _by_line(change: LineChange) -> Damage:
    """A damage of every line of every hunk, the `@@` line not."""
    return _by_hunk(lambda hunk, rng: [hunk[0], *(change(line, rng) for line in hunk[1:])])


def _by_numbers(change: Callable[[list[int], random.Random], str]) -> Damage:
    """A damage of the `@@` lines; `change` gets old start and count, new start and count."""

    def redo(hunk: list[str], rng: random.Random) -> list[str]:
        found = re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", hunk[0])
        assert found, hunk[0]
        return [change([1 if group is None else int(group) for group in found.groups()], rng), *hunk[1:]]

    return _by_hunk(redo)


def _by_text(change: Callable[[str], str]) -> Damage:
    """A damage of the whole diff."""
    return lambda sample, _: _other(sample, change(sample.diff))


def _other(sample: Sample, diff: str) -> Sample | None:
    return msgspec.structs.replace(sample, diff=diff) if diff != sample.diff else None


def _one(hunk: list[str], rng: random.Random, places: Sequence[int], change: Callable[[str], list[str]]) -> list[str]:
    """Change one of these lines of a hunk."""
    if not places:
        return hunk
    at = rng.choice(places)
    return [*hunk[:at], *change(hunk[at]), *hunk[at + 1 :]]


def _context(hunk: Sequence[str], *, telling: bool = False) -> list[int]:
    return [i for i, line in enumerate(hunk) if line.startswith(" ") and (not telling or re.search(r"[a-z]{2}", line))]


# --- the kinds --------------------------------------------------------------------------------------------------------


def _shifted(sample: Sample, rng: random.Random) -> Sample | None:
    """All lines of a hunk indented more, or less as far as they have blanks."""
    more, size = rng.random() < 0.5, rng.choice((1, 2, 4))

    def shift(line: str) -> str:
        text = line[1:]
        if line[0] == "\\" or not text.strip():
            return line
        return line[0] + (" " * size + text if more else text[min(size, len(text) - len(text.lstrip(" "))) :])

    return _by_line(lambda line, _: shift(line))(sample, rng)


def _without_edges(hunk: list[str], rng: random.Random) -> list[str]:
    """One or two outer context lines are left out, above or below; one stays."""
    lines = list(hunk[1:])
    for _ in range(rng.randint(1, 2)):
        ends = [at for at, next_at in ((0, 1), (-1, -2)) if len(lines) > 2 and lines[at][0] == lines[next_at][0] == " "]
        if ends:
            lines.pop(rng.choice(ends))
    return [hunk[0], *lines]


def _less_context(hunk: list[str], _: random.Random) -> list[str]:
    """One line of context instead of three."""
    lines = list(hunk[1:])
    while len(lines) > 1 and lines[0][0] == lines[1][0] == " ":
        lines.pop(0)
    while len(lines) > 1 and lines[-1][0] == lines[-2][0] == " ":
        lines.pop()
    return [hunk[0], *lines]


def _dots(hunk: list[str], rng: random.Random) -> list[str]:
    """`...` for a context line between context lines."""
    inner = [i for i in _context(hunk) if 1 < i < len(hunk) - 1 and hunk[i - 1][:1] == hunk[i + 1][:1] == " "]
    return _one(hunk, rng, inner, lambda _: [" ..."])


def _misspelt(line: str) -> list[str]:
    """One letter of a line is another one."""
    at = [i for i, char in enumerate(line) if char.isalpha()][-1]
    return [line[:at] + ("x" if line[at] != "x" else "y") + line[at + 1 :]]


def _swapped(sample: Sample, rng: random.Random) -> Sample | None:
    parts = _parts(sample.diff)
    for part in parts:
        part.hunks.reverse()
    return _other(sample, _joined(parts))


def _merged(sample: Sample, rng: random.Random) -> Sample | None:
    """The `@@` line between two hunks is left out."""
    parts = _parts(sample.diff)
    places = [(part, i) for part in parts for i in range(1, len(part.hunks))]
    if not places:
        return None
    part, at = rng.choice(places)
    part.hunks[at - 1 : at + 1] = [part.hunks[at - 1] + part.hunks[at][1:]]
    return _other(sample, _joined(parts))


def _crlf_files(sample: Sample, _: random.Random) -> Sample | None:
    """The files have CRLF; the patch does not know. New files have what the patch says."""
    if b"\r" in b"".join(data or b"" for pair in sample.files.values() for data in pair):
        return None
    files = {
        path: (old, new) if old is None else (_crlf(old), new and _crlf(new))
        for path, (old, new) in sample.files.items()
    }
    return None if files == sample.files else msgspec.structs.replace(sample, files=files)


def _trailing_blanks(sample: Sample, rng: random.Random) -> Sample | None:
    """A third of the files' old lines end with blanks; the patch has none."""
    added = {line[1:] for line in sample.diff.split("\n") if line.startswith("+")}
    lines = {line for old, _ in sample.files.values() if old for line in old.decode().split("\n") if line.strip()}
    chosen = {line.encode() for line in sorted(lines - added) if rng.random() < 0.3}

    def blanks(data: bytes) -> bytes:
        return b"\n".join(line + b"  " if line in chosen else line for line in data.split(b"\n"))

    files = {path: (old and blanks(old), new and blanks(new)) for path, (old, new) in sample.files.items()}
    return None if files == sample.files else msgspec.structs.replace(sample, files=files)


def _crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def _no_final_newline(sample: Sample, _: random.Random) -> Sample | None:
    """The files end without a line feed, before and after, and the patch does not say so.

    Where only one of the two does, the marker is part of the change; without it the patch is a right one, for another
    text.
    """
    pairs = [(old, new) for old, new in sample.files.values() if old and new]
    if len(pairs) < len(sample.files) or any(old.endswith(b"\n") != new.endswith(b"\n") for old, new in pairs):
        return None
    files = {path: _ended(old or b"", new or b"") for path, (old, new) in sample.files.items()}
    diff = "".join(make_diff(path, old.decode(), new.decode()) for path, (old, new) in files.items())
    damaged = diff.replace("\n\\ No newline at end of file", "")
    return None if damaged == diff else msgspec.structs.replace(sample, files={**files}, diff=damaged)


def _ended(old: bytes, new: bytes) -> tuple[bytes, bytes]:
    return old.rstrip(b"\n"), new.rstrip(b"\n")


def _tabs(sample: Sample, _: random.Random) -> Sample | None:
    """The files are indented by tabs, as are the changed lines; context lines are written with blanks."""
    unit = 2 if re.search(r"(?m)^[ +-]  \S", sample.diff) else 4
    files = {
        path: (old and _tabbed(old, unit), new and _tabbed(new, unit)) for path, (old, new) in sample.files.items()
    }
    parts = _parts(sample.diff)
    for part in parts:
        for hunk in part.hunks:
            hunk[1:] = [
                line if line[0] == " " else line[0] + _tabbed(line[1:].encode(), unit).decode() for line in hunk[1:]
            ]
    done = msgspec.structs.replace(sample, files=files, diff=_joined(parts))
    return None if done.diff == sample.diff or files == sample.files else done


def _tabbed(data: bytes, unit: int) -> bytes:
    return re.sub(rb"(?m)^(?: {%d})+" % unit, lambda found: b"\t" * (len(found[0]) // unit), data)


def _no_prefixes(diff: str) -> str:
    parts = _parts(diff)
    for part in parts:
        part.header = [
            re.sub(r"(?<= )[ab]/", "", line) if line.startswith(("diff --git ", "--- ", "+++ ")) else line
            for line in part.header
        ]
    return _joined(parts)


def _without_header(*starts: str) -> Damage:
    def change(diff: str) -> str:
        parts = _parts(diff)
        for part in parts:
            # A file without text has no `---` and `+++` lines; its other lines are all that names it.
            part.header = [line for line in part.header if not line.startswith(starts) or not part.hunks]
        return _joined(parts)

    return _by_text(change)


def _moved(start: int, rng: random.Random) -> int:
    """Another line number; 0 stands for no line and stays."""
    return start and max(start + rng.choice((-9, -2, 1, 4, 40)), 1)


KINDS: dict[str, Damage] = {
    "wrong counts": _by_numbers(
        lambda n, rng: f"@@ -{n[0]},{n[1] + rng.choice((-2, -1, 1, 3))} +{n[2]},{n[3] + rng.choice((-1, 1, 2))} @@"
    ),
    "wrong line numbers": _by_numbers(lambda n, rng: f"@@ -{_moved(n[0], rng)},{n[1]} +{_moved(n[2], rng)},{n[3]} @@"),
    "wrong counts and numbers": _by_numbers(
        lambda n, rng: f"@@ -{_moved(n[0], rng)},{n[1] + 1} +{_moved(n[2], rng)},{n[3] + 2} @@"
    ),
    "no counts": _by_numbers(lambda n, _: f"@@ -{n[0]} +{n[2]} @@"),
    "no numbers": _by_numbers(lambda n, _: "@@ @@"),
    "dots for numbers": _by_numbers(lambda n, _: "@@ ... @@"),
    "trailing blanks stripped": _trailing_blanks,
    "trailing blanks added": _by_line(lambda line, _: f"{line}  " if line.startswith(" ") else line),
    "blank context emptied": _by_line(lambda line, _: line.strip(" ") if not line.strip() else line),
    "no diff --git": _without_header("diff --git "),
    "only --- and +++": _without_header("diff --git ", "index ", "new file mode ", "deleted file mode "),
    "no index line": _without_header("index "),
    "no a/ and b/": _by_text(_no_prefixes),
    "CRLF patch": _by_text(lambda diff: diff.replace("\n", "\r\n")),
    "CRLF files": _crlf_files,
    "no final newline": _no_final_newline,
    "fence and prose": _by_text(lambda diff: f"Here it is:\n\n```diff\n{diff}```\n\nIt should pass now.\n"),
    "tabs in context as blanks": _tabs,
    "indentation shifted": _shifted,
    "outer context dropped": _by_hunk(_without_edges),
    "one line of context": _by_hunk(_less_context),
    "a context line dropped": _by_one_hunk(lambda hunk, rng: _one(hunk, rng, _context(hunk), lambda _: [])),
    "a context line twice": _by_one_hunk(lambda hunk, rng: _one(hunk, rng, _context(hunk), lambda line: [line, line])),
    "a context line misspelt": _by_one_hunk(lambda hunk, rng: _one(hunk, rng, _context(hunk, telling=True), _misspelt)),
    "dots in context": _by_one_hunk(_dots),
    "hunks out of order": _swapped,
    "two hunks merged": _merged,
    "context prefix stripped": _by_line(lambda line, _: line.removeprefix(" ")),
    "typographic context": _by_line(
        lambda line, _: line.replace("'", "’").replace(" - ", " – ") if line.startswith(" ") else line
    ),
}


# --- what became of it ------------------------------------------------------------------------------------------------


class Case(msgspec.Struct, frozen=True):
    """One damaged patch and its end; `detail` is a refusal's message."""

    kind: str
    commit: str
    diff: str
    outcome: Outcome
    detail: str = ""


def cases(found: Sequence[Sample], kinds: Iterable[str] = KINDS, *, seed: str) -> Iterator[Case]:
    """Every sample, damaged in every kind and brought through the same steps as a reply of a model."""
    for kind in kinds:
        for sample in found:
            damaged = KINDS[kind](sample, random.Random(f"{seed}/{kind}/{sample.commit}"))
            if damaged is not None:
                yield _judged(kind, damaged)


def _judged(kind: str, sample: Sample) -> Case:
    result = parse_result(canonical(sample.diff))
    if not isinstance(result, Patch):
        why = result.message if isinstance(result, Unparsable) else ""
        return Case(kind, sample.commit, sample.diff, "refused", why)
    done = prepare(result.diff, {path: old for path, (old, _) in sample.files.items() if old is not None})
    if isinstance(done, Refusal):
        return Case(kind, sample.commit, sample.diff, "refused", done.message)
    if done.doubts:
        return Case(kind, sample.commit, sample.diff, "asked", "; ".join(done.doubts))
    after = {part.file.path: part.data for part in done.files}
    right = after == {path: new for path, (_, new) in sample.files.items()}
    return Case(kind, sample.commit, sample.diff, "right" if right else "wrong")


def table(found: Sequence[Case]) -> str:
    """The figures by kind, and in all."""
    columns: tuple[Outcome, ...] = ("right", "asked", "refused", "wrong")
    rows = ["| damage | patches | right | asked | refused | wrong |", "|---|---|---|---|---|---|"]
    counts = {kind: Counter(case.outcome for case in found if case.kind == kind) for kind in KINDS}
    for kind, count in {**counts, "all": Counter(case.outcome for case in found)}.items():
        total = max(sum(count.values()), 1)
        cells = [str(sum(count.values())), *(f"{100 * count[column] / total:.1f} %" for column in columns)]
        rows.append(f"| {' | '.join([kind, *cells])} |")
    return "\n".join(rows)
