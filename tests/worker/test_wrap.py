"""Wrapping is pure: a command, a sandbox and facts give options."""

from __future__ import annotations

from itertools import pairwise

import pytest

from orchestra.worker.task import Command, Limits, Sandbox
from orchestra.worker.wrap import WrapFacts, refusal, within, wrap

FACTS = WrapFacts(
    platform=("/usr",),
    links=(("usr/bin", "/bin"),),
    etc="/prepared/etc",
    empty="/prepared/empty",
    blank="/prepared/blank",
    files=frozenset({"/data/file", "/w/.env"}),
    absent=frozenset({"/gone"}),
)
COMMAND = Command(argv=("/bin/true", "secret"), cwd="/w/sub", env={"이름": "값"}, timeout_ms=1)


def options(facts: WrapFacts = FACTS, **sandbox: object) -> list[str]:
    made = wrap(COMMAND, Sandbox(workspace="/w", **sandbox), facts)  # type: ignore[arg-type]  # the tests' own
    return [part.decode() for part in made]


def after(found: list[str], *start: str) -> list[str]:
    """What follows the words, up to the next option."""
    for at in range(len(found)):
        if found[at : at + len(start)] == list(start):
            return found[at + len(start) : at + len(start) + 1]
    raise AssertionError(f"{start} is not in {found}")


def test_the_fixed_part_unshares_everything_and_keeps_nothing() -> None:
    found = options()
    for name in ("user", "pid", "net", "ipc", "uts", "cgroup"):
        assert f"--unshare-{name}" in found
    assert {"--disable-userns", "--die-with-parent", "--new-session", "--seccomp", "--block-fd"} <= set(found)
    assert ("--cap-drop", "ALL") in pairwise(found)
    assert "secret" not in found  # the command comes after the options, on the argument list


def test_the_root_is_closed_after_everything_was_mounted() -> None:
    found = options()
    last = max(
        i for i, part in enumerate(found) if part in ("--bind", "--ro-bind", "--tmpfs", "--tmp-overlay", "--dir")
    )
    assert found[last + 2 :][:2] != [] and found.index("--remount-ro") > last
    assert ("--remount-ro", "/") in pairwise(found) and ("--remount-ro", "/dev") in pairwise(found)


def test_folder_and_environment_are_options() -> None:
    found = options()
    assert after(found, "--chdir") == ["/w/sub"]
    assert after(found, "--setenv", "이름") == ["값"]


def test_the_workspace_is_an_overlay_in_every_form() -> None:
    assert after(options(), "--overlay-src", "/w", "--tmp-overlay") == ["/w"]
    layered = options(layers=("/l1", "/l2"), upper="/u")
    at = layered.index("--overlay-src")
    assert layered[at:][:10] == [
        *("--overlay-src", "/w", "--overlay-src", "/l1", "--overlay-src", "/l2"),
        *("--overlay", "/u/up", "/u/work", "/w"),
    ]
    assert "--overlay-src" not in options(visible=False)


def test_reads_are_overlays_files_are_binds_and_what_is_there_already_is_left_out() -> None:
    found = options(reads=("/data", "/data/file", "/gone", "/usr/lib/x", "/w/src"))
    assert after(found, "--overlay-src", "/prepared/empty", "--overlay-src", "/data", "--ro-overlay") == ["/data"]
    assert after(found, "--ro-bind", "/data/file") == ["/data/file"]
    assert not {"/gone", "/usr/lib/x", "/w/src"} & set(found)


def test_parents_are_mounted_before_what_lies_in_them() -> None:
    found = options(reads=("/a/b/c", "/a", "/a-b"), hides=("/w/.runs",), writes=(("/real", "/w/.runs/out"),))
    order = [found.index("/a"), found.index("/a/b/c")]
    assert order == sorted(order)
    assert found.index("/w/.runs") < found.index("/w/.runs/out") < found.index("/tmp/home")


def test_hidden_folders_are_empty_and_closed_and_hidden_files_blank() -> None:
    found = options(hides=("/w/.runs", "/w/.env", "/gone"))
    assert after(found, "--tmpfs", "/w/.runs") and ("--remount-ro", "/w/.runs") in pairwise(found)
    assert after(found, "--ro-bind", "/prepared/blank") == ["/w/.env"] and "/gone" not in found


def test_tmpfs_have_a_size_and_root_gets_a_mask() -> None:
    found = options(limits=Limits(tmp_bytes=123))
    assert [found[i + 1 : i + 4] for i, part in enumerate(found) if part == "--size"] == [
        ["123", "--tmpfs", "/dev/shm"],
        ["123", "--tmpfs", "/tmp"],
    ]
    masked = WrapFacts(platform=(), links=(), etc="/e", empty="/m", blank="/b", mask=("/proc/sys",))
    assert after(options(masked), "--proc", "/proc", "--ro-bind", "/proc/sys") == ["/proc/sys"]
    assert "/proc/sys" not in found


@pytest.mark.parametrize("path", ["/", "/proc", "/etc/ssl", "/dev/shm/x", "/sys"])
def test_what_a_sandbox_makes_itself_cannot_be_shown(path: str) -> None:
    assert refusal(Sandbox(workspace="/w", reads=(path,))) is not None
    assert refusal(Sandbox(workspace=path)) is not None
    assert refusal(Sandbox(workspace="/w", reads=("/etcetera", "/process"))) is None


def test_within_knows_folders_from_prefixes() -> None:
    assert within("/a/b", "/a") and within("/a", "/a") and within("/a", "/") and not within("/ab", "/a")
