"""What a task may bring along."""

from __future__ import annotations

import pytest

from orchestra.policy.inputs import check_inputs


def codes(
    args: tuple[str, ...] = (), env: dict[str, str] | None = None, files: tuple[tuple[str, str], ...] = ()
) -> list[str]:
    return [violation.code for violation in check_inputs(args, env or {}, files)]


def test_what_is_usual_is_taken() -> None:
    env = {"LANG": "C.UTF-8", "CI": "1", "PYTHONPATH": "src", "NODE_ENV": "test", "이": "x"}
    del env["이"]
    files = (("src/새 파일.py", "x\n"), ("a.txt", ""), ("gitignore", ""), ("src/runs/x", ""), ("..a", "x"))
    assert codes(("-m", "x" * 1000, "", "한글"), {**env, "A": "v" * 10_000}, files) == []


def test_what_reaches_a_limit_is_taken() -> None:
    most = (("x" * 1_000,) * 1_047, ("y" * (1_048_576 - 1_047 * 1_001 - 1),))
    assert codes((*most[0], *most[1])) == []
    assert codes((*most[0], most[1][0] + "y")) == ["INPUT_LIMIT"]
    assert codes(env={"A" * 255: ""}) == [] and codes(env={"A" * 256: ""}) == ["INPUT_INVALID"]
    assert codes(files=tuple((f"f{at}", "") for at in range(100))) == []
    assert codes(files=(("f", "x" * (1 << 20)),)) == []
    assert codes(files=(("/".join(("a" * 127, "b" * 127)), ""),)) == []
    assert codes(files=(("x" * 255, ""),)) == []
    assert codes(files=(("가" * 85, ""),)) == [] and codes(files=(("가" * 85 + "x", ""),)) == ["PATH_TRAVERSAL_ATTEMPT"]


@pytest.mark.parametrize(
    ("args", "env", "files", "code"),
    [
        (("x" * 1001,), {}, (), "INPUT_LIMIT"),
        ((), {"A": "v" * 10_001}, (), "INPUT_LIMIT"),
        ((), {}, tuple((f"f{n}", "") for n in range(101)), "INPUT_LIMIT"),
        ((), {}, (("f", "x" * (1 << 20) + "x"),), "INPUT_LIMIT"),
        ((), {}, (("f", "가" * 400_000),), "INPUT_LIMIT"),
        ((), {}, (("a/" * 127 + "xx", ""),), "INPUT_LIMIT"),
        (("x" * 999,) * 1100, {}, (), "INPUT_LIMIT"),
        (("a\0b",), {}, (), "INPUT_INVALID"),
        (("\udc80",), {}, (), "INPUT_INVALID"),
        ((), {"A": "a\0b"}, (), "INPUT_INVALID"),
        ((), {"A=B": "x"}, (), "INPUT_INVALID"),
        ((), {"": "x"}, (), "INPUT_INVALID"),
        ((), {"1A": "x"}, (), "INPUT_INVALID"),
        ((), {"A\n": "x"}, (), "INPUT_INVALID"),
        ((), {"BASH_FUNC_ls%%": "() { x; }"}, (), "INPUT_INVALID"),
        ((), {}, (("f", "\ud800"),), "INPUT_INVALID"),
        ((), {}, (("f", ""), ("f", "")), "INPUT_INVALID"),
        ((), {}, (("F", ""), ("f", "")), "INPUT_INVALID"),
        ((), {}, (("a", ""), ("a/b", "")), "INPUT_INVALID"),
    ],
)
def test_limits(args: tuple[str, ...], env: dict[str, str], files: tuple[tuple[str, str], ...], code: str) -> None:
    assert codes(args, env, files) == [code]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "~/x",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "./x",
        "a//b",
        "a/",
        "a\\..\\b",
        "C:/x",
        "c:x",
        ".git",
        ".git/config",
        "sub/.git/hooks/pre-commit",
        ".GIT/config",
        ".Git/x",
        "git~1/config",
        ".git./config",
        ".git /config",
        ".git::$INDEX_ALLOCATION/x",
        ".g\u200cit/config",
        ".g\u00adit/config",
        "．ｇｉｔ/config",
        "a\0b",
        "a\nb",
        "a\u2028b",
        "x.",
        "x ",
        ".runs/x",
        ".Runs/x",
        "runs/other/events.ndjson",
        ".orchestra/sessions/x",
        "\ud800",
    ],
)
def test_a_files_path_stays_in_the_workspace_and_out_of_closed_folders(path: str) -> None:
    assert "PATH_TRAVERSAL_ATTEMPT" in codes(files=((path, ""),))


VARIABLES = (
    "PATH HOME LD_PRELOAD LD_LIBRARY_PATH GIT_DIR GIT_SSH_COMMAND NODE_OPTIONS BASH_ENV ENV IFS "
    "http_proxy HTTPS_PROXY no_proxy PYTHONSTARTUP PYTHONHOME PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS PAGER "
    "EDITOR SSL_CERT_FILE GCONV_PATH TMPDIR pip_index_url npm_config_registry ORCHESTRA_CHAOS SHELLOPTS "
    "PS4 GLIBC_TUNABLES HOSTALIASES ld_preload "
)


@pytest.mark.parametrize("name", VARIABLES.split())
def test_variables_that_make_another_program_of_a_tool_are_refused_by_name(name: str) -> None:
    [violation] = check_inputs((), {name: "x"}, ())
    assert violation.code == "FORBIDDEN_VARIABLE" and name in violation.reason


def test_all_violations_are_named_with_their_place() -> None:
    found = check_inputs(("ok", "x" * 2000), {"PATH": "x"}, (("ok", ""), ("../x", "")))
    assert [violation.where for violation in found] == ["inputs.args[1]", "inputs.env.PATH", "inputs.files[1].path"]


def test_the_folder_of_runs_is_closed_by_its_configured_name() -> None:
    assert check_inputs((), {}, (("out/x", ""),), closed=(".git", "out"))
    assert not check_inputs((), {}, (("runs/x", ""),), closed=(".git", "out"))
