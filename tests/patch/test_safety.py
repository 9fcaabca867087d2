"""The gate: what is never taken, and what a person must see by name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.patch.diff import FileChange, Hunk, Line, Refused, parse_diff
from orchestra.patch.safety import check, risks

from .support import changes_of, make_diff
from .test_diff import DIFFS

HUNK = Hunk(1, (Line("-", "a"), Line("+", "b")))


def touching(path: str) -> FileChange:
    return FileChange("modify", path, path, (HUNK,))


def creating(path: str, *added: str) -> FileChange:
    return FileChange(
        "create", None, path, (Hunk(0, tuple(Line("+", text) for text in added or ("x",))),), "100644", ("100644",)
    )


def deleting(path: str) -> FileChange:
    return FileChange("delete", path, None, (HUNK,))


FORBIDDEN = [
    *(
        "/etc/passwd",
        "//etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        "..",
        ".",
        "./x",
        "a/./b",
        "a//b",
        "a/",
        "",
        "C:/x",
        "c:x",
        "a\\b",
        "\\\\h\\s",
    ),
    *(
        "a\nb",
        "a\tb",
        "a\x7fb",
        "a\x85b",
        "a\u2028b",
        "x" * 256,
        "d/" * 600 + "x",
        "가" * 86,
        "a.",
        "a ",
        "a./b",
        "a /b",
        "a\u00a0",
    ),
    *(".git/config", ".git", "a/.git/hooks/x", ".GIT/config", ".Git/x", "git~1/config", "GIT~1", "a/git~2/x"),
    *(
        ".g\u200cit/config",
        ".git\u200d/x",
        "\ufeff.git/x",
        ".gi\u00adt/x",
        ".git::$INDEX_ALLOCATION/config",
        ".git:x/config",
    ),
    *(".runs/workflows/x/state.json", ".runs", ".RUNS/x", ".orchestra/sessions/s.json", ".orch\u200bestra/x"),
]


@pytest.mark.spec("S1-90")
@pytest.mark.parametrize("path", FORBIDDEN)
@pytest.mark.parametrize("make", [touching, creating, deleting])
def test_paths_that_are_never_taken(path: str, make: object) -> None:
    assert callable(make)
    refused = check([touching("fine.txt"), make(path)])
    assert refused is not None
    assert (refused.reason, refused.path) == ("path_violation", path)


@pytest.mark.spec("S1-90")
def test_both_names_of_a_rename_are_judged() -> None:
    for old, new in (("ok", ".git/x"), ("../ok", "x")):
        refused = check([FileChange("rename", old, new)])
        assert refused is not None and refused.reason == "path_violation"


@pytest.mark.spec("S1-90")
@pytest.mark.parametrize("line", ["/etc/passwd", "a//etc/passwd", "a/../../x", "C:\\x", "a/C:/x"])
def test_an_absolute_or_climbing_path_in_diff_text_is_refused(line: str) -> None:
    changes = parse_diff(f"--- {line}\n+++ {line.replace('a/', 'b/', 1)}\n@@ -1 +1 @@\n-a\n+b\n")
    refused = changes if isinstance(changes, Refused) else check(changes)
    assert refused is not None and refused.reason == "path_violation"


ALLOWED = [
    *(
        "a",
        "a/b.txt",
        ".gitignore",
        ".github/x.md",
        "git",
        "a/.gitkeep",
        "runs/x",
        "src/.runs/x",
        "-x",
        "a b/c d",
        "문서/읽기.md",
        "x" * 255,
    ),
    *("..a", "a..b", "...x", "git~a", ".gitx", "aa:b", "~/x", "README"),
]


@pytest.mark.parametrize("path", ALLOWED)
def test_paths_that_only_look_odd_are_taken(path: str) -> None:
    assert check([touching(path)]) is None


HEAD = "diff --git a/x b/x\n"
UNSAFE = {
    "new symlink": HEAD
    + "new file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
    "changed symlink": HEAD + "index 111..222 120000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "deleted symlink": HEAD + "deleted file mode 120000\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    "to symlink": HEAD + "old mode 100644\nnew mode 120000\n",
    "gitlink": HEAD + "new file mode 160000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+Subproject commit 123\n",
    "folder": HEAD + "new file mode 040000\n",
    "setuid": HEAD + "old mode 100644\nnew mode 104755\n",
    "group writable": HEAD + "new file mode 100664\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n",
    "git binary": HEAD + "index 111..222 100644\nGIT binary patch\nliteral 3\nKcmZQz\n\nliteral 0\nHcmV?d\n",
    "binary differ": HEAD + "index 111..222 100644\nBinary files a/x and b/x differ\n",
    "nul": HEAD + "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\0\n",
    "too many files": "".join(make_diff(f"f{number}", "a\n", "b\n") for number in range(201)),
}


@pytest.mark.spec("S1-91")
@pytest.mark.parametrize("diff", UNSAFE.values(), ids=UNSAFE.keys())
def test_modes_binaries_and_sizes_that_are_never_taken(diff: str) -> None:  # T-4
    changes = parse_diff(diff)
    refused = changes if isinstance(changes, Refused) else check(changes)
    assert refused is not None and refused.reason == "unsafe"


def test_one_path_is_changed_once_and_is_no_folder_of_another() -> None:
    for changes in (
        [touching("a"), touching("a")],
        [deleting("a"), creating("a")],
        [FileChange("rename", "a", "b"), touching("a")],
        [creating("a"), creating("a/b")],
        [creating("a/b/c"), touching("z"), creating("a/b")],
        [],
        [FileChange("modify", "a", "a")],
    ):
        refused = check(changes)
        assert refused is not None and refused.reason == "invalid_patch"
    assert check([touching("a/b"), touching("a/c"), touching("ab")]) is None


def test_two_hundred_files_are_still_taken() -> None:
    assert check([touching(f"f{number}") for number in range(200)]) is None


ASKED = [
    *(
        "src/auth/login.py",
        "security.py",
        "config/secrets.yaml",
        "credentials.json",
        "lib/token_store.py",
        "permissions/x.py",
        "userAuth.ts",
    ),
    *(
        ".env",
        ".env.local",
        "prod.env",
        "a/oauth2.py",
        ".gitmodules",
        "sub/.gitattributes",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
    ),
    *(
        "Jenkinsfile",
        ".circleci/config.yml",
        ".bashrc",
        "home/.zshrc",
        ".vimrc",
        ".vscode/tasks.json",
        ".envrc",
        "tests/conftest.py",
    ),
    *(
        "sitecustomize.py",
        "x.pth",
        ".npmrc",
        "pip.conf",
        ".cargo/config.toml",
        "orchestra.config.yaml",
        "-rf",
        "a/-x",
        "a\u202eb.txt",
    ),
    *(".husky/pre-commit", ".claude/settings.json"),
]


@pytest.mark.parametrize("path", ASKED)
def test_files_a_person_must_see_by_name(path: str) -> None:
    (reason,) = risks([touching(path)])
    assert path in reason or repr(path) in reason


@pytest.mark.parametrize(
    "path",
    ["src/app.py", "authors.md", "AUTHORS", "docs/author.md", "environment.py", "a-b.txt", "README.md", ".gitignore"],
)
def test_everyday_files_are_no_risk(path: str) -> None:
    assert risks([touching(path), creating(f"new/{path}")]) == ()


def test_the_gatekeepers_rules_of_size_and_deletion() -> None:
    assert risks([deleting("a")]) == ("deletes a",)
    assert risks([touching(f"f{number}") for number in range(19)]) == ()
    assert risks([touching(f"f{number}") for number in range(20)]) == ("changes 20 files (asked from 20)",)
    assert risks([creating("a", *["x"] * 499)]) == ()
    assert risks([creating("a", *["x"] * 500)]) == ("changes 500 lines (asked from 500)",)


def test_new_executables_bidi_characters_and_colliding_names() -> None:
    executable = changes_of(
        "diff --git a/x.sh b/x.sh\nnew file mode 100755\n--- /dev/null\n+++ b/x.sh\n@@ -0,0 +1 @@\n+x\n"
    )
    assert risks(executable) == ("makes x.sh executable",)
    assert "bidirectional" in risks([creating("a", "if x:\u202e # ok")])[0]
    assert "differ only in case" in risks([creating("a/Read.md"), creating("a/read.md")])[0]
    assert "differ only in case" in risks([creating("가.md")], existing=["\u1100\u1161.md"])[0]
    assert risks([touching("a/Read.md")], existing=["a/Read.md", "b/read.md"]) == ()


@settings(max_examples=200, deadline=None)
@given(DIFFS.map(parse_diff), st.lists(st.text(max_size=5), max_size=3))
def test_the_gate_judges_whatever_was_parsed(changes: tuple[FileChange, ...] | Refused, existing: list[str]) -> None:
    if not isinstance(changes, Refused):
        check(changes)
        risks(changes, existing=existing)
