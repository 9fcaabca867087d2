"""Pipes with real processes in every tier: all exit codes, stderr apart, limits, and nothing left running."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from orchestra.core.command import Errors, Stage
from orchestra.worker.launcher import Launcher
from orchestra.worker.pipeline import SHELL, read_codes, started_argv
from orchestra.worker.task import MIB, CommandResult
from tests.worker.rig import FAMILY, PYTHON, Rig, command, python, sh, with_launcher

pytestmark = pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs a Python that a sandbox can see")
YES, HEAD, CAT, SORT, ECHO = "/usr/bin/yes", "/usr/bin/head", "/bin/cat", "/usr/bin/sort", "/bin/echo"


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


def pipe(rig: Rig, *argvs: tuple[str, ...], errors: tuple[Errors, ...] = (), **changes: object) -> CommandResult:
    first, *rest = (Stage(argv, flag or "apart") for argv, flag in zip_longest(argvs, errors))
    return rig.run(*first.argv, errors=first.errors, then=tuple(rest), **changes)  # type: ignore[arg-type]  # as in Rig


def test_a_pipe_is_connected_and_all_exit_codes_are_known(rig: Rig) -> None:
    result = pipe(rig, sh("printf 'b\\na\\nb\\n'; exit 3"), (SORT, "-u"), sh("cat; exit 5"))
    assert (result.exitCode, result.exitCodes, result.error) == (5, (3, 0, 5), None)
    assert result.stdout.excerpt == "a\nb\n"


@pytest.mark.whoever
def test_one_program_has_no_list_of_codes(rig: Rig) -> None:
    assert rig.run(*sh("exit 4")).exitCodes == ()


def test_a_program_whose_reader_is_gone_ends_at_once_as_in_a_shell(rig: Rig) -> None:
    result = pipe(rig, (YES,), (HEAD, "-1"), timeout_ms=30_000)
    assert (result.exitCode, result.exitCodes, result.timedOut) == (0, (141, 0), False)
    assert result.stdout.excerpt == "y\n"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_program_that_is_not_there_does_not_hang_the_others(rig: Rig, place: int) -> None:
    argvs: list[tuple[str, ...]] = [(YES,), (HEAD, "-2"), (CAT,)]
    argvs[place] = ("/no/such/프로그램",)
    result = pipe(rig, *argvs, timeout_ms=30_000)
    assert not result.timedOut
    assert result.exitCodes[place] == 127
    assert "프로그램" in result.stderr.excerpt


def test_stderr_is_apart_or_joined_or_dropped_by_stage(rig: Rig) -> None:
    both = sh("echo out; echo err >&2")
    apart = pipe(rig, both, (SORT,))
    assert (apart.stdout.excerpt, apart.stderr.excerpt) == ("out\n", "err\n")
    joined = pipe(rig, both, (SORT,), errors=("stdout",))
    assert (joined.stdout.excerpt, joined.stderr.excerpt) == ("err\nout\n", "")
    dropped = pipe(rig, both, sh("cat; echo late >&2"), errors=("nothing", "apart"))
    assert (dropped.stdout.excerpt, dropped.stderr.excerpt) == ("out\n", "late\n")
    alone = rig.run(*both, errors="stdout")
    assert (sorted(alone.stdout.excerpt.split()), alone.stderr.excerpt, alone.exitCodes) == (["err", "out"], "", (0,))


@pytest.mark.whoever
def test_no_word_reaches_a_shell(strict: Rig) -> None:
    hostile = ("$(id)", "`id`", "; touch x", "'\"", "${1}", "\n", "| cat", "-n", "", "한글 이름", "7>&1", "\\", "*")
    result = pipe(strict, python("import sys; print(ascii(sys.argv[1:]))", *hostile), (CAT,))
    assert result.stdout.excerpt == ascii(list(hostile)) + "\n"
    script = started_argv(command(strict.workspace, (ECHO, *hostile), then=(Stage((CAT, *hostile)),)))
    assert script[:2] == (SHELL, "-c")
    assert not any(word in script[2] for word in hostile if len(word) > 4 and word != "${1}")


def test_every_program_has_three_descriptors_and_default_signals(rig: Rig) -> None:
    look = """
        import os, signal
        kept = [number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) == signal.SIG_IGN]
        ignored = [line for line in open("/proc/self/status") if line.startswith("SigIgn")]
        print(sorted(map(int, os.listdir("/proc/self/fd")))[:-1], kept, int(ignored[0].split()[1], 16) & (1 << 14))
    """
    for argvs in ((python(look), (CAT,)), ((ECHO,), python(look)), ((ECHO,), python(look), (CAT,))):
        assert pipe(rig, *argvs).stdout.excerpt == "[0, 1, 2] [] 0\n"


def test_a_time_limit_ends_all_stages(rig: Rig) -> None:
    result = pipe(rig, ("/bin/sleep", "600"), (CAT,), timeout_ms=500)
    assert (result.timedOut, result.limit) == (True, "time")
    assert result.exitCodes[0] in (137, 143)


def test_a_program_gets_its_grace_period_within_a_pipe(rig: Rig) -> None:
    tidy = """
        import signal, sys, time
        def end(*_):
            time.sleep(0.3)
            print("tidied", flush=True)
            sys.exit(9)
        signal.signal(signal.SIGTERM, end)
        print("begun", flush=True)
        time.sleep(600)
    """
    calm = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.stdout.write(sys.stdin.read())"
    result = pipe(rig, python(tidy), python(calm), timeout_ms=1500, grace_ms=20_000)
    assert result.timedOut
    assert (result.stdout.excerpt, result.exitCodes) == ("begun\ntidied\n", (9, 0))


def test_what_a_pipe_leaves_running_is_ended(rig: Rig) -> None:
    result = pipe(rig, python(FAMILY, "0", rig.mark), (HEAD, "-1"))
    assert result.stdout.excerpt == "ready\n"
    assert rig.left() == []


def test_limits_hold_for_all_stages_together(strict: Rig) -> None:
    eat = "import sys, time; x = bytearray(150 << 20); print(len(x), flush=True); time.sleep(600)"
    result = pipe(strict, python(eat), python(eat), python(eat), sandbox=strict.limited(memory_bytes=300 * MIB))
    assert result.limit == "memory"
    assert result.exitCodes == (137, 137, 137)


def test_a_canceled_pipe_leaves_nothing(rig: Rig) -> None:
    async def act(launcher: Launcher) -> None:
        ready = asyncio.Event()
        family = python(FAMILY, "600", rig.mark)
        held = await rig.prepare(
            launcher, *family, then=(Stage((CAT,)),), grace_ms=100, on_line=lambda line: ready.set()
        )
        running = asyncio.ensure_future(held.run())
        await ready.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with_launcher(act)
    assert rig.left() == []


@pytest.mark.whoever
def test_descriptors_are_not_lost(rig: Rig) -> None:
    async def act(launcher: Launcher) -> tuple[int, int]:
        counts = []
        for _ in range(4):
            held = await rig.prepare(launcher, ECHO, "a", then=(Stage((CAT,)),))
            await held.run()
            dropped = await rig.prepare(launcher, ECHO, "a", then=(Stage((CAT,)),))
            await dropped.drop()
            counts.append(len(os.listdir("/proc/self/fd")))
        return counts[0], counts[-1]

    first, last = with_launcher(act)
    assert first == last


@pytest.mark.whoever
def test_korean_names_binary_and_terminal_codes_go_through_and_are_shown_safely(rig: Rig) -> None:
    (rig.workspace / "설명 문서.txt").write_bytes(b"\x1b[31m\xea\xb0\x80\x1b[0m\x00\xff\n")
    result = pipe(rig, (CAT, "설명 문서.txt"), (CAT,))
    assert "가" in result.stdout.excerpt
    assert "\x1b" not in result.stdout.excerpt and "\x00" not in result.stdout.excerpt
    assert rig.out.read_bytes() == b"\x1b[31m\xea\xb0\x80\x1b[0m\x00\xff\n"


@pytest.mark.whoever
def test_a_hundred_megabytes_are_bounded_and_counted(strict: Rig) -> None:
    result = pipe(strict, (YES, "가나다라"), (HEAD, "-c", "100000000"), excerpt_characters=12_000, capture_limit=MIB)
    assert result.exitCodes == (141, 0)
    assert (result.stdout.bytes, result.stdout.kept, result.stdout.truncated) == (100_000_000, MIB, True)
    assert MIB < strict.out.stat().st_size < MIB + 200
    assert 12_000 <= len(result.stdout.excerpt) <= 12_100
    assert "100000000 bytes in all" in result.stdout.excerpt


@pytest.mark.whoever
@pytest.mark.parametrize("place", [0, 1])
def test_a_pipe_with_an_unusable_stage_is_a_result_that_says_why(strict: Rig, place: int) -> None:
    argvs = [(ECHO, "a"), (CAT,)]
    argvs[place] = ("cat",)
    result = pipe(strict, *argvs)
    assert (result.exitCode, result.exitCodes) == (None, ())
    assert "'cat' is not an absolute path" in (result.error or "")


@pytest.mark.whoever
@pytest.mark.parametrize(
    ("said", "codes"),
    [
        (b"", (137, 137)),
        (b"1 0\n0 141\n", (141, 0)),
        (b"0 1\n0 2\n1 0\n", (1, 0)),
        (b"0 999\n7 3\nx\n1 -1\n1 4 \n\xff\n0 12", (12, 137)),
        (b"0 0\n" * 5000, (0, 137)),
    ],
)
def test_reported_codes_are_read_strictly(said: bytes, codes: tuple[int, ...]) -> None:
    assert read_codes(said, 2) == codes
