"""The gate: what is never taken, and what a person must see by name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.names import OWN
from orchestra.core.work import Refusal
from orchestra.patch.diff import FileChange, Hunk, Line, parse_diff
from orchestra.patch.safety import check, guarded, judged_by, risks

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
    *(".claude/orchestrator/state.json", ".Claude/ORCHESTRATOR", ".claude", "CLAUDE~1/orchestrator/x"),
    *("orches~1/sessions/x", "RUNS~1/x", "ORCHE~12/x", ".runs:x/y", ".ｒｕｎｓ/x"),
    "d/" * 64 + "x",
    "/".join(["x" * 204] * 4 + ["x" * 205]),
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
    refused = changes if isinstance(changes, Refusal) else check(changes)
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
    *(
        "/".join(["x" * 204] * 5),
        "d/" * 63 + "x",
        ".claude/commands/x.md",
        "orchestrator/x",
        "runs~x",
        "a/.orchestra/x",
    ),
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
    refused = changes if isinstance(changes, Refusal) else check(changes)
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


CLOSED = (*OWN, "runs", "state/graph", "실험/기록")


@pytest.mark.parametrize(
    "path",
    [
        *("runs/x/inbox/approval-plan-1.json", "RUNS/x", "Runs/x", "runs", "r\u200buns/x", "ｒｕｎｓ/x", "runs:s/x"),
        *("state/graph/x", "State/GRAPH", "state", "state/graph/a/b"),
        *("실험/기록/x", "\u1109\u1175\u11af\u1112\u1165\u11b7/기록/x", "실험"),
    ],
)
def test_no_patch_writes_where_the_configuration_keeps_runs(path: str) -> None:
    for make in (touching, creating, deleting):
        refused = check([make(path)], closed=CLOSED)
        assert refused is not None and refused.reason == "path_violation"
    moved = check([FileChange("rename", "a", path)], closed=CLOSED)
    assert moved is not None and "belongs to orchestra" in moved.message


def test_folders_that_only_look_like_closed_ones_are_open() -> None:
    for path in ("runs-evil/x", "src/runs/x", "state/graphs", "states/graph/x", "실험/기록부"):
        assert check([touching(path)], closed=CLOSED) is None


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
    for character in "\x00\x08\x0b\x0e\x1b\x1f\x7f\x80\x9f":
        [reason] = risks([creating("a", f"x{character}y")])
        assert reason == "a: adds control characters, so what a terminal shows of it may not be what runs"
    assert risks([creating("a", "\tx\x0c", "한글 👨\u200d👩\xa0é\r")]) == ()
    assert "differ only in case" in risks([creating("a/Read.md"), creating("a/read.md")])[0]
    assert "differ only in case" in risks([creating("가.md")], existing=["\u1100\u1161.md"])[0]
    assert risks([touching("a/Read.md")], existing=["a/Read.md", "b/read.md"]) == ()


def test_a_new_folder_may_collide_too() -> None:
    assert risks([creating("Src/x.py")], existing=["src"]) == ("Src and src differ only in case or normal form",)
    assert risks([creating("A/x"), creating("a/y")]) == ("a and A differ only in case or normal form",)
    assert "A.TXT and a.txt" in risks([FileChange("rename", "b", "A.TXT"), touching("a.txt")])[0]
    assert risks([creating("src/x.py"), creating("src/y.py")], existing=["Lib", "test"]) == ()


@pytest.mark.parametrize(
    "name", ["a\u200bb.py", "a\u202eb.txt", "folder\u2060/x", "빈\u3164칸.md", "\ufeffa", "x\ufe0f", "x\U000e0041"]
)
def test_no_new_file_gets_a_name_that_nobody_sees_whole(name: str) -> None:
    for change in (creating(name), FileChange("rename", "a", name)):
        refused = check([change])
        assert refused is not None and "invisible" in refused.message
    assert check([touching(name)]) is None and check([FileChange("rename", name, "a")]) is None
    assert "invisible" in risks([touching(name)])[0]


@pytest.mark.parametrize(
    "name", ["aux.py", "src/NUL.txt", "com1", "lib/con/x.py", "LPT9.log", "com\u00b9", "prn.tar.gz"]
)
def test_a_new_name_that_is_a_device_elsewhere_is_shown(name: str) -> None:
    assert "device on Windows" in risks([creating(name)])[0]
    assert risks([touching(name)]) == ()  # it is there already


def test_a_test_that_was_there_before_is_shown_and_a_new_one_is_not() -> None:
    assert risks([touching("tests/test_calc.py")]) == ("edits tests/test_calc.py, a test that was there before",)
    assert risks([deleting("src/calc_test.go")]) == ("deletes src/calc_test.go, a test that was there before",)
    moved = FileChange("rename", "tests/test_calc.py", "old/calc.py")
    assert risks([moved]) == ("renames tests/test_calc.py, a test that was there before",)
    assert risks([touching("tests/test_token.py")])[-1] == "edits tests/test_token.py, a test that was there before"
    assert risks([creating("tests/test_new.py"), FileChange("rename", "a.py", "tests/test_a.py")]) == ()
    assert risks([touching("tests/test_mine.py")], made={"tests/test_mine.py"}) == ()


def test_what_checks_are_judged_by() -> None:
    for change in (
        touching("tests/test_a.py"),
        deleting("tests/data.json"),
        creating("pytest.ini"),
        touching("Makefile"),
    ):
        assert judged_by(change)
    for change in (creating("tests/test_a.py"), touching("src/a.py"), touching("CLAUDE.md"), creating("auth.py")):
        assert not judged_by(change)
    assert not judged_by(touching("tests/test_a.py"), made={"tests/test_a.py"})


def test_a_new_file_that_takes_the_place_of_a_module_of_python_s_own_is_shown() -> None:
    for path in ("argparse.py", "re/__init__.py"):
        assert judged_by(creating(path)) and "takes the place of Python's own module" in "".join(
            risks([creating(path)])
        )
    for change in (touching("argparse.py"), creating("src/argparse.py"), creating("shop.py"), creating("json")):
        assert not judged_by(change)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "orchestra.config.yaml",
            "sub/Orchestra.Config.YAML",
            "orchestra.config.yml",
            "orchestra.config.yaml:x",
        ),
        *("orchestra\u200b.config.yaml", ".config/orchestra/config.yaml"),
    ],
)
def test_the_configuration_is_guarded_in_every_spelling_and_by_every_change(path: str) -> None:
    for change in (touching(path), deleting(path), FileChange("rename", path, "a"), FileChange("rename", "a", path)):
        [reason] = guarded([change], {})
        assert reason == (
            f"{path} is orchestra's own configuration: a person must agree under every approval mode;"
            " it counts for later runs only"
        )


def test_what_the_configuration_names_as_code_is_guarded() -> None:
    code = {"tools/lint.sh": "the program of `tools.lint`"}
    [reason] = guarded([touching("a"), touching("Tools/lint.sh")], code)
    assert reason.startswith("Tools/lint.sh is the program of `tools.lint`: a person must agree")
    assert guarded([touching("tools/other.sh"), touching("config.yaml")], code) == ()


NAMES = st.sampled_from(
    ["a", "src/b.py", "가.md", "x.sh", "../x", "a/../b", ".git/config", "/etc/x", "a\\b", "C:/x", " "]
)
TEXTS = st.one_of(st.none(), st.text("ab\n가\u202e", min_size=1, max_size=8))
PARTS = st.lists(st.tuples(NAMES, TEXTS, TEXTS).filter(lambda part: part[1] != part[2]), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(PARTS, st.lists(st.text(max_size=5), max_size=3))
def test_the_gate_judges_whatever_was_parsed(
    parts: list[tuple[str, str | None, str | None]], existing: list[str]
) -> None:
    changes = parse_diff("".join(make_diff(*part) for part in parts))
    assert not isinstance(changes, Refusal) or changes.message
    if isinstance(changes, Refusal):
        return
    found = check(changes)
    clean = [part for part in parts if part[0] in ("a", "src/b.py", "가.md", "x.sh")]
    if found is None:
        assert len(clean) == len(parts) and [change.path for change in changes] == [path for path, _, _ in parts]
    else:
        assert found.message and (found.reason != "path_violation" or len(clean) < len(parts))
    assert all(risks(changes, existing=existing))  # each is a sentence
    deleted = [f"deletes {change.path}" for change in changes if change.kind == "delete"]
    assert set(deleted) <= set(risks(changes, existing=existing))


@settings(max_examples=200, deadline=None)
@given(DIFFS.map(parse_diff))
def test_the_gate_raises_nothing_whatever_was_parsed(changes: tuple[FileChange, ...] | Refusal) -> None:
    if not isinstance(changes, Refusal):
        refused = check(changes)
        assert refused is None or refused.message
        assert all(risks(changes))


@pytest.mark.parametrize(
    ("longest", "too_long"),
    [
        ("x" * 255, "x" * 256),
        ("가" * 85, "가" * 85 + "x"),  # bytes, not characters
        ("d/" * 63 + "x", "d/" * 64 + "x"),
        ("/".join(("x" * 204,) * 5), "/".join(("x" * 204,) * 4 + ("x" * 205,))),
    ],
)
def test_a_path_may_be_so_long(longest: str, too_long: str) -> None:
    assert check([touching(longest)]) is None
    refused = check([touching(too_long)])
    assert refused is not None and refused.reason == "path_violation"


@pytest.mark.parametrize(
    ("path", "is_guarded"),
    [
        ("flows/x.py", True),
        ("flows/x-1.dist-info/entry_points.txt", True),
        ("flows/readme.txt", False),
        ("other/x.py", False),
        ("other/x-1.dist-info/entry_points.txt", False),
    ],
)
def test_what_python_would_import_from_a_folder_of_code_needs_a_person(path: str, is_guarded: bool) -> None:
    assert bool(guarded([creating(path)], {}, {"flows": "beside a workflow"})) is is_guarded
    assert bool(guarded([creating(path)], {}, {".": "beside a workflow"})) is not path.endswith("readme.txt")
