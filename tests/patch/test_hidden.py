"""What a person is not shown of a patch is told with its place; of a secret file a refused patch tells nothing."""

from __future__ import annotations

import pytest

from orchestra.core.redact import Redactor
from orchestra.core.work import Masked, Refusal
from orchestra.patch.diff import FileChange, parse_diff
from orchestra.patch.hidden import hidden_lines
from orchestra.patch.locate import Image, compute
from tests.support.project import gone_file, new_file

REDACTOR = Redactor()
CANARY = "no format at all"
FILE = f"first line\n{CANARY}\nlast line\n".encode()
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(["A1b2" * 16] * 5) + "\n-----END RSA PRIVATE KEY-----"


def changes(diff: str) -> tuple[FileChange, ...]:
    found = parse_diff(diff)
    assert not isinstance(found, Refusal), found
    return found


def told(diff: str, **files: bytes) -> list[Masked]:
    """What is told of a diff, computed against these files (`_` for `.`)."""
    wanted = changes(diff)
    images: dict[str, Image | None] = {path: None for change in wanted for path in change.paths}
    images |= {name.replace("_", "."): Image(data, 0o644) for name, data in files.items()}
    prepared = compute(wanted, images)
    assert not isinstance(prepared, Refusal), prepared
    return [span for part in prepared.files for span in hidden_lines(part.file.path, part.diff, REDACTOR)]


def test_an_added_line_is_told_by_its_number_in_the_new_file_whatever_the_header_claims() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 41))
    hunk = "@@ -1,3 +1,4 @@\n line 20\n+mysql --password a1b2c3;./payload.sh\n line 21\n"
    first = "@@ -1,2 +1,3 @@\n line 3\n+새 줄\n line 4\n"
    diff = f"diff --git a/run.sh b/run.sh\n--- a/run.sh\n+++ b/run.sh\n{first}{hunk}"
    assert told(diff, run_sh=old.encode()) == [Masked("run.sh", 22, 6, "password on a command line")]


def test_lengths_are_in_characters_and_every_span_of_a_line_is_told() -> None:
    diff = new_file("배포.sh", "#!/bin/sh", "# 한글", "curl -u 나:비밀번호다 x; curl -u b:cd y")
    assert told(diff) == [
        Masked("배포.sh", 3, 5, "password on a command line"),
        Masked("배포.sh", 3, 2, "password on a command line"),
    ]


def test_what_spans_lines_is_told_once_at_the_first_of_them() -> None:
    [span] = told(new_file("key.txt", "# key", *KEY.split("\n"), "end"))
    assert (span.path, span.line, span.what) == ("key.txt", 2, "private key")
    assert span.characters >= len(KEY)


def test_what_is_taken_away_or_left_alone_is_in_the_files_already() -> None:
    old = b"curl -u a:old x\nother\ncurl -u a:kept x\n"
    hunk = "@@ -1,3 +1,3 @@\n-curl -u a:old x\n+curl x\n other\n curl -u a:kept x\n"
    assert told(f"diff --git a/a.sh b/a.sh\n--- a/a.sh\n+++ b/a.sh\n{hunk}", a_sh=old) == []


MISFITS = {
    "a hunk that fits nowhere": "--- a/{0}\n+++ b/{0}\n@@ -1,2 +1,2 @@\n first line\n-guess\n+x\n",
    "a hunk that fits twice": "--- a/{0}\n+++ b/{0}\n@@ -7,1 +7,2 @@\n same\n+x\n",
    "a hunk whose text is there": "--- a/{0}\n+++ b/{0}\n@@ -1,2 +1,2 @@\n-guess\n+no format at all\n",
}


@pytest.mark.parametrize("diff", MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("path", ["prod.env", "config/master.key"])
def test_a_patch_that_does_not_fit_a_secret_file_learns_nothing_of_it(path: str, diff: str) -> None:
    data = FILE + b"same\nother\nsame\n"
    refused = refusal(f"diff --git a/{path} b/{path}\n{diff.format(path)}", path, data)
    assert "it is a secret by its name" in refused.message and refused.reason == "context_mismatch"
    assert told_nothing(refused)
    assert "line" not in refused.message
    shown = refusal(f"diff --git a/plain.txt b/plain.txt\n{diff.format('plain.txt')}", "plain.txt", data)
    assert "line" in shown.message  # of an ordinary file a fixer is told what it needs


def test_neither_a_rename_nor_a_deletion_nor_a_guess_tells_what_is_in_a_secret_file() -> None:
    move = "diff --git a/prod.env b/plain.txt\nrename from prod.env\nrename to plain.txt\n"
    move += "--- a/prod.env\n+++ b/plain.txt\n"
    assert told_nothing(refusal(f"{move}@@ -1,2 +1,2 @@\n first line\n-guess\n+x\n", "prod.env", FILE))
    assert told_nothing(refusal(gone_file("prod.env", "first line", "guess"), "prod.env", FILE))
    right = refusal(new_file("prod.env", "first line", CANARY, "last line"), "prod.env", FILE)
    wrong = refusal(new_file("prod.env", "first line"), "prod.env", FILE)
    assert right.message == wrong.message


def refusal(diff: str, path: str, data: bytes) -> Refusal:
    wanted = changes(diff)
    images = {name: Image(data, 0o644) if name == path else None for change in wanted for name in change.paths}
    refused = compute(wanted, images)
    assert isinstance(refused, Refusal), refused
    return refused


def told_nothing(refused: Refusal) -> bool:
    return CANARY not in refused.message and "first line" not in refused.message
