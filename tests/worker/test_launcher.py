"""The launcher with real processes in every tier: how they end, what is captured, and that nothing is left running.

Where it matters who runs it, the last test runs all of this again as an ordinary user.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import DiskFull
from orchestra.core.redact import MASK
from orchestra.worker.launcher import Launcher
from orchestra.worker.task import Captured, CommandResult
from tests.support.others import as_ordinary_user
from tests.worker.rig import FAMILY, PYTHON, Rig, command, python, sh, with_launcher

pytestmark = pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs a Python that a sandbox can see")


@pytest.fixture(params=["strict", "landlock", "none"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, tier=request.param)
    yield rig
    assert rig.left() == []


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    assert rig.left() == []


def test_exit_codes_and_both_streams_are_reported(rig: Rig) -> None:
    result = rig.run(*sh("echo out; echo err >&2; exit 7"))
    assert (result.exitCode, result.signal, result.error, result.timedOut) == (7, None, None, False)
    assert result.stdout == Captured(bytes=4, kept=4, excerpt="out\n")
    assert result.stderr == Captured(bytes=4, kept=4, excerpt="err\n")
    assert [Path(artifact.path).read_text() for artifact in result.artifacts] == ["out\n", "err\n"]


@pytest.mark.spec("S2-12")
@pytest.mark.whoever
def test_both_streams_may_share_an_artifact_with_size_and_hash(rig: Rig) -> None:
    result = rig.run(*sh("echo 0; sleep 0.2; echo 1 >&2; sleep 0.2; echo 2"), apart=False)
    (artifact,) = result.artifacts
    stored = rig.out.read_bytes()
    assert sorted(stored.split()) == [b"0", b"1", b"2"]
    assert (artifact.bytes, artifact.sha256) == (6, f"sha256:{hashlib.sha256(stored).hexdigest()}")
    assert rig.out.stat().st_mode & 0o777 == 0o600


def test_death_by_signal_is_not_an_exit_code(rig: Rig) -> None:
    result = rig.run(*sh("kill -SEGV $$"))
    assert (result.exitCode, result.signal, result.error) == (None, signal.SIGSEGV, None)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing", "was not found"),
        ("plain", "is not executable"),
        ("nonsense", "neither a program nor a script"),
        ("bad-interpreter", "was not found (or the interpreter"),
    ],
)
def test_what_cannot_start_is_a_result_that_says_why(rig: Rig, name: str, says: str) -> None:
    (rig.workspace / "plain").write_text("#!/bin/sh\n")
    for script, text in (("nonsense", "hello"), ("bad-interpreter", "#!/no/such\n")):
        (rig.workspace / script).write_text(text)
        (rig.workspace / script).chmod(0o755)
    if name == "nonsense" and rig.sandbox.tier == "strict":
        pytest.skip("bwrap starts it as execvp does: as a shell script")
    result = rig.run(str(rig.workspace / name))
    assert (result.exitCode, result.signal, result.refused) == (None, None, False)
    assert result.error is not None and says in result.error


@pytest.mark.parametrize(
    ("argv", "says"),
    [((), "is empty"), (("/bin/echo", "a\0b"), "NUL"), (("true",), "absolute"), (("/bin/true", "x" * 200_000), "long")],
)
@pytest.mark.whoever
def test_what_cannot_even_be_said_is_a_result_too(rig: Rig, argv: tuple[str, ...], says: str) -> None:
    result = rig.run(*argv)
    assert result.error is not None and says in result.error


def test_a_missing_working_folder_is_named(rig: Rig) -> None:
    result = rig.run("/bin/true", cwd=str(rig.workspace / "gone"))
    assert result.error is not None and "working folder" in result.error and "gone" in result.error


@pytest.mark.whoever
def test_many_and_korean_arguments_arrive(rig: Rig) -> None:
    many = ("한글 인자", "", "-x", "a\nb", *("y" * 1000 for _ in range(1500)))
    code = "import sys, hashlib; print(hashlib.sha256('\\0'.join(sys.argv[1:]).encode()).hexdigest(), len(sys.argv))"
    digest = hashlib.sha256("\0".join(many).encode()).hexdigest()
    assert rig.run(*python(code, *many)).stdout.excerpt == f"{digest} {len(many) + 1}\n"


@pytest.mark.spec("S2-136")
def test_the_environment_is_exactly_what_was_given(rig: Rig) -> None:
    given = {"PATH": "/usr/bin:/bin", "이름": "값=1", "EMPTY": "", "PWD": str(rig.workspace), "TMPDIR": "/tmp"}
    result = rig.run("/usr/bin/env", "-0", env=given)
    if rig.sandbox.tier == "landlock":  # where there is no private /tmp
        given["TMPDIR"] = next(line[7:] for line in result.stdout.excerpt.split("\\x00") if line.startswith("TMPDIR="))
    assert sorted(result.stdout.excerpt.split("\\x00")) == sorted(["", *(f"{k}={v}" for k, v in given.items())])


def test_it_runs_in_its_folder_without_terminal_and_in_its_own_session(rig: Rig) -> None:
    code = """
        import os
        print(os.getcwd(), os.getsid(0) in (os.getpid(), 1, 0), os.path.realpath("/proc/self/fd/0"))
        try:
            os.open("/dev/tty", os.O_RDWR)
        except OSError:
            print("no terminal")
    """
    assert rig.run(*python(code)).stdout.excerpt == f"{rig.workspace} True /dev/null\nno terminal\n"


def test_no_descriptor_of_ours_is_inherited(rig: Rig) -> None:
    code = """
        import os
        names = sorted(os.listdir("/proc/self/fd"), key=int)
        print([os.readlink(f"/proc/self/fd/{n}")[:4] for n in names[:3]], len(names))
    """
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        result = rig.run(*python(code))
    finally:
        os.close(leak)
    # The fourth is the listing's own.
    assert result.stdout.excerpt == "['/dev', 'pipe', 'pipe'] 4\n"


def test_signals_are_as_a_program_expects_them(rig: Rig) -> None:
    result = rig.run(*sh("yes | head -1; grep -E 'Sig(Blk|Ign)' /proc/self/status"))
    first, *masks = result.stdout.excerpt.split()
    assert first == "y"
    # 32 and 33 are glibc's own: its posix_spawn leaves them ignored.
    assert [int(mask, 16) & 0x7FFFFFFF for mask in masks[1::2]] == [0, 0]


@pytest.mark.whoever
def test_stdin_is_given_whole_and_may_be_left_unread(rig: Rig) -> None:
    big = b"0123456789abcdef" * 100_000
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    assert rig.run(*python(code), stdin=big).stdout.excerpt == hashlib.sha256(big).hexdigest() + "\n"
    assert rig.run("/bin/true", stdin=big).exitCode == 0


@pytest.mark.spec("S2-49")
def test_a_command_past_its_time_is_ended_with_everything_it_started(rig: Rig) -> None:
    result = rig.run(*python(FAMILY, "600", rig.mark), timeout_ms=1500, grace_ms=100)
    assert (result.timedOut, result.limit, result.signal, result.exitCode) == (True, "time", signal.SIGKILL, None)
    assert result.stdout.excerpt == "ready\n"
    assert rig.left() == []


def test_a_command_that_obeys_term_has_time_to_say_so(rig: Rig) -> None:
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(4)))
        print("up", flush=True)
        time.sleep(600)
    """
    result = rig.run(*python(code), timeout_ms=1500, grace_ms=20_000)
    assert (result.timedOut, result.exitCode, result.stdout.excerpt) == (True, 4, "up\nbye\n")


def test_a_daemon_that_keeps_stdout_open_neither_hangs_us_nor_lives_on(rig: Rig) -> None:
    result = rig.run(*python(FAMILY, "0", rig.mark))
    assert (result.exitCode, result.timedOut, result.stdout.excerpt) == (0, False, "ready\n")
    assert rig.left() == []


def test_cancellation_is_raised_when_no_process_is_left(rig: Rig) -> None:
    async def cancel_it(launcher: Launcher) -> None:
        ready = asyncio.Event()
        held = await rig.prepare(launcher, *python(FAMILY, "600", rig.mark), on_line=lambda _: ready.set())
        task = asyncio.create_task(held.run())
        await ready.wait()
        assert rig.left()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # impatience changes nothing
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rig.left() == []

    with_launcher(cancel_it)


def test_the_command_waits_until_it_is_let_go_and_can_be_dropped(rig: Rig) -> None:
    async def hold(launcher: Launcher) -> tuple[int, str]:
        held = await rig.prepare(launcher, *sh(f"echo ran; : {rig.mark}"))
        dropped = await rig.prepare(launcher, *sh(f"echo ran; : {rig.mark}"), name="dropped")
        assert held.pid and held.start_time and held.pid != dropped.pid
        await asyncio.sleep(0.3)
        assert os.path.exists(f"/proc/{held.pid}") and rig.out.read_bytes() == b""
        await dropped.drop()
        assert not os.path.exists(f"/proc/{dropped.pid}") and rig.out.with_name("dropped.txt").read_bytes() == b""
        result = await held.run()
        assert result.stdout.excerpt == "ran\n"
        return held.pid, held.start_time

    with_launcher(hold)


@pytest.mark.whoever
def test_a_flood_is_counted_and_cut_off(strict: Rig) -> None:
    code = "import os\nfor _ in range(800): os.write(1, (b'a' * 63 + b'\\n') * 1024)\nos.write(1, b'the end\\n')"
    result = strict.run(*python(code), capture_limit=100_000, excerpt_limit=128)
    assert result.exitCode == 0
    assert result.stdout == Captured(
        bytes=52_428_808,
        kept=100_000,
        truncated=True,
        excerpt="a" * 63 + "\n\n[… 52428680 bytes left out …]\n" + "a" * 55 + "\nthe end\n",
    )
    stored = strict.out.read_bytes()
    assert stored[100_000:] == b"\n[orchestra: 52328808 more bytes of output were not kept]\n"
    assert result.artifacts[0].bytes == len(stored)


@pytest.mark.whoever
def test_a_line_of_two_megabytes_is_kept_as_it_is(strict: Rig) -> None:
    result = strict.run(*python("import os; os.write(1, b'z' * 2_000_000) or 1; print('x' * 2_000_000)"))
    assert strict.out.stat().st_size == result.stdout.bytes == result.stdout.kept > 2_000_000


@pytest.mark.whoever
def test_binary_output_is_kept_as_bytes_and_shown_as_text(strict: Rig) -> None:
    result = strict.run(*python("import os; os.write(1, bytes(range(256)))"))
    assert strict.out.read_bytes() == bytes(range(256))
    assert result.stdout.excerpt.startswith("\\x00\\x01") and result.stdout.excerpt.endswith("\\xfe\\xff")


@pytest.mark.whoever
def test_korean_split_between_writes_arrives_whole(strict: Rig) -> None:
    code = """
        import os, time
        for byte in "안녕하세요, 작업을 마쳤습니다\\n".encode():
            os.write(1, bytes([byte]))
            time.sleep(0.002)
    """
    assert strict.run(*python(code)).stdout.excerpt == "안녕하세요, 작업을 마쳤습니다\n"


@pytest.mark.spec("S2-81")
@pytest.mark.whoever
def test_secrets_are_masked_in_excerpts_artifacts_and_lines(strict: Rig) -> None:
    code = """
        import os, time
        for part in (b"token is s3cr", b"et-value\\n", b"ghp_" + b"aB3" * 6, b"aB3" * 6 + b" ok\\n"):
            os.write(1, part); os.write(2, part)
            time.sleep(0.03)
        os.write(1, b"s3cret\\x1b[0m-value\\n")
    """
    lines: list[str] = []

    async def act(launcher: Launcher) -> CommandResult:
        return await (await strict.prepare(launcher, *python(code), on_line=lines.append)).run()

    result = with_launcher(act)
    assert result.stderr.excerpt == f"token is {MASK}\n{MASK} ok\n"
    assert result.stdout.excerpt == f"token is {MASK}\n{MASK} ok\n{MASK}\n"
    stored = strict.out.read_text()
    assert "s3cret-value" not in stored and "aB3aB3" not in stored and stored.count(MASK) == 4
    assert lines[-1] == MASK and not any("value" in line for line in lines)


@pytest.mark.whoever
def test_a_face_is_told_the_newest_line_now_and_then_and_the_last_always(strict: Rig) -> None:
    lines: list[str] = []

    async def act(launcher: Launcher) -> CommandResult:
        code = "for n in range(20000): print(f'\\x1b[1mline {n}\\x1b[0m')\nprint('마지막 줄\\n\\nno newline', end='')"
        return await (await strict.prepare(launcher, *python(code), on_line=lines.append)).run()

    assert with_launcher(act).exitCode == 0
    assert lines[-1] == "마지막 줄" and len(lines) < 2000
    assert all(line.startswith("line ") for line in lines[:-1])


def test_eight_commands_at_once_do_not_mix(rig: Rig) -> None:
    async def all_of_them(launcher: Launcher) -> list[CommandResult]:
        async def one(n: int) -> CommandResult:
            held = await rig.prepare(launcher, *sh(f"sleep 0.2; echo {n}; exit {n}"), name=str(n))
            return await held.run()

        return await asyncio.gather(*(one(n) for n in range(8)))

    before = len(os.listdir("/proc/self/fd"))
    results = with_launcher(all_of_them)
    assert [(r.exitCode, r.stdout.excerpt) for r in results] == [(n, f"{n}\n") for n in range(8)]
    assert [rig.out.with_name(f"{n}.txt").read_text() for n in range(8)] == [f"{n}\n" for n in range(8)]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_full_disk_ends_the_command_and_is_raised(rig: Rig) -> None:
    """Its first word finds the disk full. It would go on for an hour: no time limit ends it in the disk's place."""
    with pytest.raises(DiskFull):
        rig.run(*python(FAMILY, "3600", rig.mark), disk=Disk(Chaos(1, "enospc")), timeout_ms=3_600_000)
    assert rig.left() == []


def test_a_file_that_cannot_be_made_leaves_no_process(rig: Rig) -> None:
    rig.err.mkdir()

    async def act(launcher: Launcher) -> list[int]:
        what = command(rig.workspace, python("import time; time.sleep(600)", rig.mark))
        with pytest.raises(IsADirectoryError):
            await launcher.launch(what, rig.sandbox, rig.out, rig.err)
        return rig.left()

    assert with_launcher(act) == []


@pytest.mark.whoever
def test_output_and_its_name_are_durable_before_it_is_told_of(rig: Rig) -> None:
    """D-04: written, synced and named, each of which may find a full disk."""
    for at in (1, 2, 3):
        with pytest.raises(DiskFull):
            rig.run("/bin/echo", "x", disk=Disk(Chaos(at, "enospc")))
        rig.out.unlink()
        rig.err.unlink()
    assert rig.run("/bin/echo", "x", disk=Disk(Chaos(4, "enospc"))).exitCode == 0


@pytest.mark.whoever
def test_of_output_without_a_byte_there_is_nothing_to_sync(rig: Rig) -> None:
    assert rig.run("/bin/true", disk=Disk(Chaos(1, "enospc"))).exitCode == 0
    assert rig.out.read_bytes() == b""


@pytest.mark.whoever
def test_a_command_line_may_be_longer_than_a_message(rig: Rig) -> None:
    words = ["x" * 1000] * 500
    result = rig.run("/bin/sh", "-c", 'echo "$#"', "sh", *words)
    assert (result.exitCode, result.stdout.excerpt) == (0, "500\n")


def test_who_is_given_nothing_to_read_cannot_write_there_either(rig: Rig) -> None:
    result = rig.run(*sh("cat; echo x >&0"))
    assert result.exitCode != 0 and result.stdout.bytes == 0


def test_an_artifact_is_never_written_through_a_link(strict: Rig) -> None:
    strict.out.symlink_to(strict.out.with_name("elsewhere"))
    with pytest.raises(OSError) as caught:
        strict.run("/bin/echo", "x")
    assert caught.value.errno == errno.ELOOP
    assert not strict.out.with_name("elsewhere").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else; all others ran as an ordinary user")
@pytest.mark.parametrize(
    "file", ["test_launcher.py", "test_pipeline.py", "test_sandbox.py", "test_spawner.py", "test_layer_kept.py"]
)
def test_it_holds_for_an_ordinary_user_too(file: str) -> None:
    done = as_ordinary_user(Path(__file__).with_name(file))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
