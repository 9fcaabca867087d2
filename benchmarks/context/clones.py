"""Local clones for the benchmark of the context: cases chosen from them by rule, and their trees as folders.

Nothing of a repository is kept: a case is a commit's hash, paths and line numbers.

The rule for cases. From HEAD back, without merges, the first `PER_REPOSITORY` commits that
1. modify 1 to 4 source files (by their ending; not tests, documents or generated files), and at most 12 files in all;
2. have 1 to 30 hunks in these source files;
3. have a message of at least 8 words once trailers, paths and file names are removed, whose first line does not begin
   with merge, revert, bump, release, chore or docs.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

PER_REPOSITORY = 12
_SOURCE = re.compile(r".*\.(?:py|go|ts|tsx|js|jsx|vue|rs|java|kt|rb|c|cc|cpp|h|cs|php|swift|scala)")
_OTHER = re.compile(
    r"(?:^|.*/)(?:tests?|testing|specs?|__tests__|testdata|fixtures|docs?|examples?|vendor|third_party|benches|"
    r"benchmarks?|locales?|test-[\w-]+)/.*|(?:.*/)?(?:test_[^/]*|[^/]*[_.-](?:test|spec)\.\w+|conftest\.py|[^/]*Tests?\.\w+)"
)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+")
_TRAILER = re.compile(
    r"(?:[A-Z][\w-]+-by|Fixes|Closes|Closed-by|References|Change-Id|PR Close|See|Ref|Refs|Cc)\b *[:#].*", re.I
)
_PATH = re.compile(
    r"\S*/\S*\.\w+|\b[\w-]+\.(?:py|go|ts|tsx|js|jsx|vue|rs|java|kt|rb|c|cc|cpp|h|rst|md|txt|toml|ya?ml|json)\b|https?://\S+"
)
_SKIPPED = re.compile(r"(?:merge|revert|bump|release|chore|docs|build|ci|v?\d+\.\d+)\b", re.IGNORECASE)


class Case(msgspec.Struct, frozen=True):
    """One commit: what had to be changed in the tree of its parent."""

    commit: str
    hunks: dict[str, list[tuple[int, int]]]  # path -> ranges of lines before the change


class Clone:
    """A local clone; only read."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self._written: dict[str, str] = {}  # path -> object, in the folder of `tree`

    def git(self, *words: str) -> str:
        """The output of git, which only reads."""
        done = subprocess.run(["git", f"--git-dir={self.git_dir}", *words], capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")

    def cases(self) -> Iterator[Case]:
        """The cases of this clone, by the rule above."""
        found = 0
        for commit in self.git("log", "--no-merges", "--format=%H", "-2000", "HEAD").split():
            if found == PER_REPOSITORY:
                return
            message = self.git("show", "-s", "--format=%B", commit)
            if _SKIPPED.match(message) or len(goal_of(message).split()) < 8:
                continue
            hunks = self._hunks(commit)
            if hunks and 1 <= sum(map(len, hunks.values())) <= 30:
                found += 1
                yield Case(commit, hunks)

    def _hunks(self, commit: str) -> dict[str, list[tuple[int, int]]]:
        """The changed lines of the source files that a commit modifies; empty if it is no case."""
        try:
            status = self.git("diff-tree", "-r", "--no-renames", "--name-status", f"{commit}^", commit).splitlines()
        except subprocess.CalledProcessError:
            return {}  # the first commit
        changed = [line.split("\t", 1) for line in status]
        source = [path for _, path in changed if _SOURCE.fullmatch(path) and not _OTHER.fullmatch(path)]
        modified = [path for kind, path in changed if kind == "M" and path in source]
        if not 1 <= len(modified) <= 4 or len(modified) != len(source) or len(changed) > 12:
            return {}
        out: dict[str, list[tuple[int, int]]] = {}
        for path in modified:
            for line in self.git("diff", "-U0", f"{commit}^", commit, "--", path).splitlines():
                if at := _HUNK.match(line):
                    first, many = int(at[1]), int(at[2] or 1)
                    # an insertion changes no line: a patch for it needs the lines before and after
                    ends = (max(1, first), first + many - 1) if many else (max(1, first), first + 1)
                    out.setdefault(path, []).append(ends)
        return out

    def goal(self, case: Case) -> str:
        """The goal of a case: the commit's message without trailers, paths and file names."""
        return goal_of(self.git("show", "-s", "--format=%B", case.commit))

    def tree(self, case: Case, folder: Path) -> Path:
        """The tree of the parent commit, as a folder; the next case changes the folder.

        A clone may lack some of its biggest files: these are left out.
        """
        rows = (line.split("\t", 1) for line in self.git("ls-tree", "-r", "-z", f"{case.commit}^").split("\0") if line)
        wanted = {path: facts.split()[2] for facts, path in rows if facts.startswith("100")}
        tree = folder / "tree"
        tree.mkdir(parents=True, exist_ok=True)
        for path in self._written.keys() - wanted.keys():
            (tree / path).unlink()
        changed = {path: blob for path, blob in wanted.items() if self._written.get(path) != blob}
        self._written = {path: blob for path, blob in wanted.items() if path not in changed}
        for (path, blob), data in zip(changed.items(), self._blobs(changed.values()), strict=True):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            if data is not None:
                (tree / path).write_bytes(data)
                self._written[path] = blob
        return tree

    def _blobs(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """The contents of these objects; None for one that the clone does not have."""
        command = ["git", f"--git-dir={self.git_dir}", "cat-file", "--batch"]
        asked = "".join(f"{name}\n" for name in names).encode()
        with tempfile.TemporaryFile() as out:
            subprocess.run(command, input=asked, stdout=out, check=True)
            out.seek(0)
            while head := out.readline().split():
                if head[-1] == b"missing":
                    yield None
                else:
                    yield out.read(int(head[2]))
                    out.read(1)


def goal_of(message: str) -> str:
    """A commit's message without trailers, paths, file names and addresses."""
    lines = [line for line in message.splitlines() if not _TRAILER.match(line.strip())]
    return re.sub(r"\(#\d+\)", "", _PATH.sub("", "\n".join(lines))).strip()
