"""The launcher with real processes: how they end, what is captured, and that nothing is ever left running."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestra.core.disk import ChaosDisk, Disk
from orchestra.core.errors import DiskFull
from orchestra.core.redact import MASK, Redactor
from orchestra.worker.launcher import launch, start_time
from orchestra.worker.task import Captured, Command, CommandResult

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
REDACTOR = Redactor(["s3cret-value"])
ENOUGH_S = 20.0  # for polling: far more than is ever needed


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *args)


def command(folder: Path, *argv: str, **changes: object) -> Command:
    fields: dict[str, object] = {"argv": argv, "cwd": str(folder), "env": PATH, "timeout_ms": 30_000, **changes}
    return Command(**fields)  # type: ignore[arg-type]  # the changes are this file's own


def run(folder: Path, *argv: str, disk: Disk | None = None, **changes: object) -> CommandResult:
    what = command(folder, *argv, **changes)
    return asyncio.run(launch(what, folder / "out.txt", redactor=REDACTOR, disk=disk or Disk()))


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def pids(folder: Path, count: int) -> list[int]:
    """The processes that wrote their pid into the folder, once there are `count`."""
    wait_until(lambda: len([p for p in folder.glob("*.pid") if p.read_text().endswith("\n")]) >= count)
    return [int(p.read_text()) for p in folder.glob("*.pid")]


# A family that is hard to kill: all ignore TERM; the daemon double-forks into its own session and keeps stdout open.
FAMILY = """
    import os, signal, sys, time
    def sign(name):
        with open(name + ".pid", "w") as file:
            file.write(f"{os.getpid()}\\n")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        sign("child")
        time.sleep(600)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            sign("daemon")
            time.sleep(600)
        os._exit(0)
    sign("parent")
    while len([n for n in os.listdir(".") if n.endswith(".pid")]) < 3:
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(float(sys.argv[1]))
"""


def test_exit_codes_and_both_streams_are_reported(tmp_path: Path) -> None:
    result = run(tmp_path, "sh", "-c", "echo out; sleep 0.05; echo err >&2; exit 7")
    assert (result.exitCode, result.signal, result.error, result.timedOut) == (7, None, None, False)
    assert result.stdout == Captured(bytes=4, kept=4, excerpt="out\n")
    assert result.stderr == Captured(bytes=4, kept=4, excerpt="err\n")


@pytest.mark.spec("S2-12")
def test_the_artifact_is_both_streams_as_they_came_with_size_and_hash(tmp_path: Path) -> None:
    code = """
        import os, time
        for n in range(4):
            os.write(1 + n % 2, b"%d\\n" % n)
            while os.path.getsize("out.txt") < 2 * (n + 1):  # the next word only after this one was stored
                time.sleep(0.01)
    """
    result = run(tmp_path, *python(code))
    stored = (tmp_path / "out.txt").read_bytes()
    assert stored == b"0\n1\n2\n3\n"
    assert result.artifact is not None
    assert result.artifact.path == str(tmp_path / "out.txt")
    assert (result.artifact.bytes, result.artifact.sha256) == (8, f"sha256:{hashlib.sha256(stored).hexdigest()}")
    assert (tmp_path / "out.txt").stat().st_mode & 0o777 == 0o600


def test_death_by_signal_is_not_an_exit_code(tmp_path: Path) -> None:
    result = run(tmp_path, "sh", "-c", "kill -SEGV $$")
    assert (result.exitCode, result.signal, result.error) == (None, signal.SIGSEGV, None)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("no-such-program",), "'no-such-program' was not found"),
        (("./missing",), "'./missing' was not found"),
        (("./plain",), "is not executable"),
        (("./nonsense",), "neither a program nor a script"),
        (("./bad-interpreter",), "was not found (or the interpreter"),
        (("hidden",), "'hidden' was not found"),
        ((), "the command is empty"),
        (("echo", "a\0b"), "NUL"),
        (("true", "x" * 200_000), "too long"),
    ],
)
def test_what_cannot_start_is_a_result_that_says_why(tmp_path: Path, argv: tuple[str, ...], says: str) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    for name, text in (("nonsense", "hello"), ("bad-interpreter", "#!/no/such\n"), ("hidden", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    result = run(tmp_path, *argv, env={"PATH": f".::{PATH['PATH']}"})  # the workspace itself is never searched
    assert result.exitCode is None and result.signal is None
    assert result.error is not None and says in result.error


def test_a_missing_working_folder_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, "true", cwd=str(tmp_path / "gone"))
    assert result.error == f"cannot start: the working folder {str(tmp_path / 'gone')!r} does not exist"


def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    given = {"PATH": "/usr/bin:/bin", "이름": "값=1", "EMPTY": ""}
    result = run(tmp_path, "env", "-0", env=given)
    assert sorted(result.stdout.excerpt.split("\\x00")) == sorted(["", *(f"{k}={v}" for k, v in given.items())])


def test_it_runs_in_its_folder_without_terminal_and_in_its_own_session(tmp_path: Path) -> None:
    code = """
        import os
        print(os.getcwd(), os.getsid(0) == os.getpid() == os.getpgrp(), os.path.realpath("/proc/self/fd/0"))
        try:
            os.open("/dev/tty", os.O_RDWR)
        except OSError:
            print("no terminal")
    """
    assert run(tmp_path, *python(code)).stdout.excerpt == f"{tmp_path} True /dev/null\nno terminal\n"


def test_no_descriptor_of_ours_is_inherited(tmp_path: Path) -> None:
    code = """
        import os
        names = sorted(os.listdir("/proc/self/fd"), key=int)
        print([os.readlink(f"/proc/self/fd/{n}")[:4] for n in names[:3]], len(names))
    """
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        result = run(tmp_path, *python(code))
    finally:
        os.close(leak)
    # The fourth is the listing's own.
    assert result.stdout.excerpt == "['/dev', 'pipe', 'pipe'] 4\n"


def test_signals_are_as_a_program_expects_them(tmp_path: Path) -> None:
    result = run(tmp_path, "sh", "-c", "yes | head -1; grep -E 'Sig(Blk|Ign)' /proc/self/status")
    first, *masks = result.stdout.excerpt.split()
    assert first == "y"
    # 32 and 33 are glibc's own: its posix_spawn leaves them ignored.
    assert [int(mask, 16) & 0x7FFFFFFF for mask in masks[1::2]] == [0, 0]


def test_stdin_is_given_whole_and_may_be_left_unread(tmp_path: Path) -> None:
    big = b"0123456789abcdef" * 100_000
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    assert run(tmp_path, *python(code), stdin=big).stdout.excerpt == hashlib.sha256(big).hexdigest() + "\n"
    assert run(tmp_path, "true", stdin=big).exitCode == 0


@pytest.mark.spec("S2-49")
def test_a_command_past_its_time_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    result = run(tmp_path, *python(FAMILY, "600"), timeout_ms=4000, grace_ms=100)
    assert (result.timedOut, result.signal, result.exitCode) == (True, signal.SIGKILL, None)
    assert result.stdout.excerpt == "ready\n"
    assert not any(exists(pid) for pid in pids(tmp_path, 3))


def test_a_command_that_obeys_term_has_time_to_say_so(tmp_path: Path) -> None:
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(4)))
        print("up", flush=True)
        time.sleep(600)
    """
    result = run(tmp_path, *python(code), timeout_ms=4000, grace_ms=20_000)
    assert (result.timedOut, result.exitCode, result.stdout.excerpt) == (True, 4, "up\nbye\n")


def test_a_daemon_that_keeps_stdout_open_neither_hangs_us_nor_lives_on(tmp_path: Path) -> None:
    result = run(tmp_path, *python(FAMILY, "0"))
    assert (result.exitCode, result.timedOut, result.stdout.excerpt) == (0, False, "ready\n")
    assert not any(exists(pid) for pid in pids(tmp_path, 3))


def test_cancellation_is_raised_when_no_process_is_left(tmp_path: Path) -> None:
    async def cancel_it() -> list[int]:
        what = command(tmp_path, *python(FAMILY, "600"), grace_ms=100)
        task = asyncio.create_task(launch(what, tmp_path / "out.txt", redactor=REDACTOR, disk=Disk()))
        family = await asyncio.to_thread(pids, tmp_path, 3)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # impatience changes nothing
        with pytest.raises(asyncio.CancelledError):
            await task
        return family

    assert not any(exists(pid) for pid in asyncio.run(cancel_it()))


def test_killing_orchestra_leaves_no_process_of_the_command(tmp_path: Path) -> None:
    driver = f"""
        import asyncio, sys
        sys.path[:0] = {sys.path!r}
        from pathlib import Path
        from orchestra.core.disk import Disk
        from orchestra.core.redact import Redactor
        from orchestra.worker.launcher import launch
        from orchestra.worker.task import Command
        command = Command(argv={python(FAMILY, "600")!r}, cwd={str(tmp_path)!r}, env={{}}, timeout_ms=600_000)
        note = lambda pid, started: Path({str(tmp_path / "supervisor.pid")!r}).write_text(f"{{pid}}\\n")
        asyncio.run(launch(command, Path({str(tmp_path / "out.txt")!r}), redactor=Redactor(), disk=Disk(),
        on_start=note))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(driver)]) as process:
        family = pids(tmp_path, 4)
        assert all(alive(pid) for pid in family)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(alive(pid) for pid in family))


def test_a_killed_supervisor_is_reported_and_its_group_ended(tmp_path: Path) -> None:
    code = """
        import os, time
        open("it.pid", "w").write(f"{os.getpid()}\\n")
        os.kill(os.getppid(), 9)
        time.sleep(600)
    """
    result = run(tmp_path, *python(code))
    assert result.error is not None and "supervisor" in result.error
    wait_until(lambda: not alive(pids(tmp_path, 1)[0]))


def test_term_to_the_supervisor_ends_the_tree(tmp_path: Path) -> None:
    async def end_it() -> CommandResult:
        started: list[tuple[int, str]] = []
        what = command(tmp_path, *python(FAMILY, "600"))
        task = asyncio.create_task(
            launch(what, tmp_path / "out.txt", redactor=REDACTOR, disk=Disk(), on_start=lambda *s: started.append(s))
        )
        await asyncio.to_thread(pids, tmp_path, 3)
        ((pid, began),) = started
        assert start_time(pid) == began != ""
        os.kill(pid, signal.SIGTERM)
        return await task

    assert asyncio.run(end_it()).signal == signal.SIGKILL
    assert not any(exists(pid) for pid in pids(tmp_path, 3))


def test_the_command_waits_until_it_was_noted(tmp_path: Path) -> None:
    def note(pid: int, began: str) -> None:
        assert not (tmp_path / "ran").exists() and began == start_time(pid)
        raise KeyError("the journal refused")

    what = command(tmp_path, "touch", "ran")
    with pytest.raises(KeyError, match="refused"):
        asyncio.run(launch(what, tmp_path / "out.txt", redactor=REDACTOR, disk=Disk(), on_start=note))
    assert not (tmp_path / "ran").exists()


def test_a_flood_is_counted_and_cut_off(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(800): os.write(1, (b'a' * 63 + b'\\n') * 1024)\nos.write(1, b'the end\\n')"
    result = run(tmp_path, *python(code), capture_limit=100_000, excerpt_limit=128)
    assert result.exitCode == 0
    assert result.stdout == Captured(
        bytes=52_428_808,
        kept=100_000,
        truncated=True,
        excerpt="a" * 63 + "\n\n[… 52428680 bytes left out …]\n" + "a" * 55 + "\nthe end\n",
    )
    stored = (tmp_path / "out.txt").read_bytes()
    assert stored[100_000:] == b"\n[orchestra: 52328808 more bytes of output were not kept]\n"
    assert result.artifact is not None and result.artifact.bytes == len(stored)


def test_a_line_of_two_megabytes_is_kept_as_it_is(tmp_path: Path) -> None:
    result = run(tmp_path, *python("import os; os.write(1, b'z' * 2_000_000) or 1; print('x' * 2_000_000)"))
    assert (tmp_path / "out.txt").stat().st_size == result.stdout.bytes == result.stdout.kept > 2_000_000


def test_binary_output_is_kept_as_bytes_and_shown_as_text(tmp_path: Path) -> None:
    result = run(tmp_path, *python("import os; os.write(1, bytes(range(256)))"))
    assert (tmp_path / "out.txt").read_bytes() == bytes(range(256))
    assert result.stdout.excerpt.startswith("\\x00\\x01") and result.stdout.excerpt.endswith("\\xfe\\xff")
    assert "\\x1b" in result.stdout.excerpt


def test_korean_split_between_writes_arrives_whole(tmp_path: Path) -> None:
    code = """
        import os, time
        for byte in "안녕하세요, 작업을 마쳤습니다\\n".encode():
            os.write(1, bytes([byte]))
            time.sleep(0.002)
    """
    assert run(tmp_path, *python(code)).stdout.excerpt == "안녕하세요, 작업을 마쳤습니다\n"


@pytest.mark.spec("S2-81")
def test_secrets_are_masked_in_the_excerpt_and_in_the_artifact(tmp_path: Path) -> None:
    code = """
        import os, time
        for part in (b"token is s3cr", b"et-value\\n", b"ghp_" + b"aB3" * 6, b"aB3" * 6 + b" ok\\n"):
            os.write(1, part); os.write(2, part)
            time.sleep(0.03)
        os.write(1, b"s3cret\\x1b[0m-value\\n")
    """
    result = run(tmp_path, *python(code))
    assert result.stderr.excerpt == f"token is {MASK}\n{MASK} ok\n"
    assert result.stdout.excerpt == f"token is {MASK}\n{MASK} ok\n{MASK}\n"
    stored = (tmp_path / "out.txt").read_text()
    assert "s3cret-value" not in stored and "aB3aB3" not in stored and stored.count(MASK) == 4


def test_twenty_commands_at_once_do_not_mix(tmp_path: Path) -> None:
    async def all_of_them() -> list[CommandResult]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    launch(
                        command(tmp_path, "sh", "-c", f"sleep 0.1; echo {n}; exit {n}"),
                        tmp_path / f"{n}.txt",
                        redactor=REDACTOR,
                        disk=Disk(),
                    )
                )
                for n in range(20)
            ]
        return [task.result() for task in tasks]

    before = len(os.listdir("/proc/self/fd"))
    results = asyncio.run(all_of_them())
    assert [(r.exitCode, r.stdout.excerpt) for r in results] == [(n, f"{n}\n") for n in range(20)]
    assert [(tmp_path / f"{n}.txt").read_text() for n in range(20)] == [f"{n}\n" for n in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert _zombies() == []


def _zombies() -> list[str]:
    """Dead children of this process that nobody buried."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and parent == str(os.getpid()):
            found.append(pid)
    return found


def test_a_full_disk_ends_the_command_and_is_raised(tmp_path: Path) -> None:
    code = "import os, time; open('it.pid', 'w').write(f'{os.getpid()}\\n'); print('x', flush=True); time.sleep(600)"
    with pytest.raises(DiskFull):
        run(tmp_path, *python(code), disk=ChaosDisk(1, "enospc"))
    assert not exists(pids(tmp_path, 1)[0])


def test_an_artifact_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "out.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError) as caught:
        run(tmp_path, "echo", "x")
    assert caught.value.errno == errno.ELOOP
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else; all others ran as an ordinary user")
def test_it_holds_for_an_ordinary_user_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    if (child := os.fork()) == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            if not os.access(sys.executable, os.X_OK, effective_ids=True):
                os._exit(77)
            result = run(tmp_path, *python(FAMILY, "0"))
            code = int(result.exitCode != 0 or any(exists(pid) for pid in pids(tmp_path, 3)))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 77:
        pytest.skip(f"{sys.executable} is closed to other users")
    assert code == 0
