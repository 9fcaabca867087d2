"""Tier strict, seen from inside and from outside: what is there, what is written where, and which limits hold."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.worker import host
from orchestra.worker.launcher import PROXY_PORT, Launcher
from orchestra.worker.task import MIB, CommandResult, Denial
from tests.support.others import needs_open_checkout
from tests.worker.rig import PYTHON, Rig, command, python, sh, with_launcher

pytestmark = pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs a Python that a sandbox can see")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    assert rig.left() == []


def said(result: CommandResult) -> str:
    assert result.error is None, result.error
    return result.stdout.excerpt


def test_only_the_workspace_and_the_platform_are_there(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary")
    (rig.workspace / "파일.txt").write_text("보임")
    line = f"cat 파일.txt; ls -A /home /root /var /srv /mnt {tmp_path} 2>/dev/null; ls -A /"
    lines = said(rig.run(*sh(line))).split("\n")
    assert lines[0].startswith("보임") and "secret" not in lines and "작업 공간" in lines
    assert {"etc", "proc", "dev", "tmp", "usr"} <= set(lines) and not {"home", "root", "var", "sys"} & set(lines)


def test_what_it_writes_is_not_written_on_the_host(rig: Rig) -> None:
    (rig.workspace / "old").write_text("old")
    line = "echo new > old; echo x > made; mkdir d; echo t > /tmp/t; cat old made /tmp/t; echo > /usr/x || echo no"
    assert said(rig.run(*sh(line))) == "new\nx\nt\nno\n"
    assert {path.name: path.read_text() for path in rig.workspace.iterdir()} == {"old": "old"}


def test_an_upper_folder_receives_what_it_writes_and_layers_are_read(rig: Rig, tmp_path: Path) -> None:
    upper, low, high = tmp_path / "upper", tmp_path / "low", tmp_path / "high"
    for folder, names in ((rig.workspace, "abc"), (low, "bc"), (high, "c")):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_text(folder.name[:3] + "\n")
    sandbox = rig.changed(upper=str(upper), layers=(str(low), str(high)))
    assert said(rig.run(*sh("cat a b c; echo mine > made; rm a"), sandbox=sandbox)) == "작업 \nlow\nhig\n"
    assert (upper / "up" / "made").read_text() == "mine\n"
    assert (rig.workspace / "a").exists() and not (rig.workspace / "made").exists()
    again = rig.changed(upper=str(upper))  # the same layer, gone on with
    assert said(rig.run(*sh("cat made; ls"), sandbox=again)) == "mine\nb\nc\nmade\n"


def test_hidden_folders_and_files_appear_empty(rig: Rig) -> None:
    for folder in (".runs", "secrets"):
        (rig.workspace / folder).mkdir()
        (rig.workspace / folder / "key").write_text("canary")
    (rig.workspace / ".env").write_text("canary")
    hides = tuple(str(rig.workspace / name) for name in (".runs", ".env", "not-there"))
    line = "ls -A .runs; cat .env; echo x > .runs/x || echo closed; rm -rf .runs || echo busy; cat secrets/key"
    assert said(rig.run(*sh(line), sandbox=rig.changed(hides=hides))) == "closed\nbusy\ncanary"
    inside = rig.changed(hides=hides, reads=(str(rig.workspace / ".runs" / "key"),))
    assert said(rig.run(*sh("ls .runs; cat .runs/key"), sandbox=inside)) == "key\ncanary"


def test_an_invisible_workspace_shows_only_what_may_be_read(rig: Rig, tmp_path: Path) -> None:
    (rig.workspace / "src").mkdir()
    for name in ("src/a", "b", "c"):
        (rig.workspace / name).write_text(name + "\n")
    reads = (str(rig.workspace / "src"), str(rig.workspace / "b"))
    line = "cat src/a b; ls; echo new > new; echo x > src/x || echo closed"
    sandbox = rig.changed(visible=False, reads=reads)
    assert said(rig.run(*sh(line), sandbox=sandbox)) == "src/a\nb\nb\nsrc\nclosed\n"
    kept = rig.changed(visible=False, reads=reads, upper=str(tmp_path / "upper"))
    assert said(rig.run(*sh(line), sandbox=kept)) == "src/a\nb\nb\nsrc\nclosed\n"
    assert os.listdir(tmp_path / "upper" / "up") == ["new"]


def test_reads_are_for_reading_and_a_socket_in_them_is_dead(rig: Rig, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "file").write_text("more\n")
    os.symlink("/etc/passwd", more / "link")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as beside:
        os.chdir(more)  # the path of a socket may not be long
        server.bind("s")
        os.chdir(rig.workspace)
        beside.bind("s")
        os.chdir("/")
        server.listen()
        beside.listen()
        code = """
            import os, socket, sys
            print(open(sys.argv[1] + "/file").read(), end="")
            for folder in sys.argv[1:]:
                os.chdir(folder)
                try:
                    socket.socket(socket.AF_UNIX).connect("s")
                    print("connected")
                except OSError as error:
                    print(error.strerror)
            try:
                open(sys.argv[1] + "/new", "w")
            except OSError as error:
                print(error.strerror)
        """
        sandbox = rig.changed(reads=(str(more), str(tmp_path / "nowhere"), str(more / "s")))
        text = said(rig.run(*python(code, str(more), str(rig.workspace)), sandbox=sandbox))
    assert text == "more\nConnection refused\nConnection refused\nRead-only file system\n"


def test_writes_are_for_real_and_may_lie_elsewhere(rig: Rig, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    sandbox = rig.changed(writes=((str(real), "/out"), (str(real), str(rig.workspace / "artifacts"))))
    assert rig.run(*sh("echo 1 > /out/one; echo 2 > artifacts/two"), sandbox=sandbox).exitCode == 0
    assert sorted(os.listdir(real)) == ["one", "two"] and os.listdir(rig.workspace) == []


def test_nothing_of_ours_is_in_proc(rig: Rig) -> None:
    os.environ["ORCHESTRA_CANARY"] = "canary-in-the-environment"
    try:
        line = "cat /proc/1/environ /proc/1/cmdline | tr '\\0' ' '; cat /proc/sys/kernel/hostname"
        text = said(rig.run(*sh(line), env={"PATH": "/usr/bin:/bin", "GIVEN": "x"}))
    finally:
        del os.environ["ORCHESTRA_CANARY"]
    assert text.startswith("bwrap --args 3 -- /bin/sh -c ") and "canary" not in text and "GIVEN" not in text
    assert text.endswith("sandbox\n")


def test_switches_of_the_system_cannot_be_opened_for_writing(rig: Rig) -> None:
    code = """
        import os
        for folder, names, files in os.walk("/proc"):
            if folder == "/proc":
                names[:] = [n for n in names if not n.isdigit() and n not in ("self", "thread-self", "net")]
            for name in files:
                try:
                    os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
                    print(os.path.join(folder, name))
                except OSError:
                    pass
    """
    found = said(rig.run(*python(code), excerpt_limit=100_000)).split()
    # Pressure files can be opened by anyone; what is written there needs CAP_SYS_RESOURCE on the host.
    assert [path for path in found if not path.startswith("/proc/pressure/")] == []


@needs_open_checkout
def test_another_user_can_be_told_to_run_it() -> None:
    with tempfile.TemporaryDirectory() as name:  # not below pytest's folder, which is closed to others
        _run_as_another_user(Path(name))


def _run_as_another_user(folder: Path) -> None:
    rig = Rig(folder)
    sandbox = rig.changed(run_as=65534, upper=str(folder / "upper"))
    folder.chmod(0o711)
    rig.workspace.chmod(0o755)
    (rig.workspace / "file").write_text("read\n")
    assert said(rig.run(*sh("id -u; cat file; echo x > made; touch /tmp/x"), sandbox=sandbox)) == "65534\nread\n"
    assert (folder / "upper" / "up" / "made").stat().st_uid == 65534
    if os.getuid() == 0:
        assert host.weak_points(sandbox) == () != host.weak_points(rig.sandbox)
        folder.chmod(0o700)
        closed = rig.run("/bin/true", sandbox=rig.changed(run_as=65534))
        assert closed.refused and closed.error is not None and "closed to the user" in closed.error
    else:
        assert rig.run("/bin/true", sandbox=rig.changed(run_as=12345)).refused


BOMB = "import os\nwhile True:\n    if os.fork() == 0:\n        import time; time.sleep(600)\n"
MEMORY = "import os, sys, time\nfor _ in range(4): os.fork()\nx = b'x' * int(sys.argv[1]); time.sleep(600)"
FILL = "import sys\nf = open(sys.argv[1], 'wb')\nwhile True: f.write(b'x' * (1 << 20)); f.flush()"
NAMES = "import sys\nn = 0\nwhile True: open(f'{sys.argv[1]}/{n}', 'w').close(); n += 1"
GONE = """
    import os, time
    files = []
    for n in range(40):
        f = open(f"f{n}", "wb"); os.unlink(f"f{n}"); f.write(b"x" * (4 << 20)); f.flush(); files.append(f)
    time.sleep(600)
"""
UNNAMED = (
    "import os, time\nf = os.memfd_create('x')\nfor _ in range(200): os.write(f, b'x' * (1 << 20))\ntime.sleep(600)"
)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("name", "code", "argument", "limits"),
    [
        ("memory", MEMORY, str(20 * MIB), {"memory_bytes": 200 * MIB}),
        ("memory", UNNAMED, "", {"memory_bytes": 100 * MIB}),
        ("disk", FILL, "big", {"disk_bytes": 50 * MIB}),
        ("disk", FILL, "/tmp/big", {"disk_bytes": 50 * MIB}),
        ("disk", GONE, "", {"disk_bytes": 50 * MIB}),
        ("disk", FILL, "big", {"file_bytes": 20 * MIB}),
        ("files", NAMES, ".", {"files": 2000}),
        ("files", NAMES, "/tmp", {"files": 2000}),
        ("files", NAMES, "/dev/shm", {"files": 2000}),
    ],
)
def test_a_bomb_is_ended_and_the_limit_named(
    rig: Rig, tmp_path: Path, kept: bool, name: str, code: str, argument: str, limits: dict[str, int]
) -> None:
    sandbox = rig.limited(**limits)
    if kept:
        sandbox = Rig.changed(rig, upper=str(tmp_path / "upper"), limits=sandbox.limits)
    reset = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    code = "\n".join(line.removeprefix("    ") for line in code.strip("\n").split("\n")) if code is GONE else code
    result = rig.run(*python(reset + code, argument, rig.mark), sandbox=sandbox)
    assert (result.limit, result.timedOut, result.error) == (name, False, None)
    assert result.signal == (signal.SIGXFSZ if "file_bytes" in limits else signal.SIGKILL)


def test_a_fork_bomb_is_held(rig: Rig) -> None:
    result = rig.run(*python(BOMB, rig.mark), sandbox=rig.limited(processes=30), timeout_ms=10_000)
    if os.getuid() == 0:  # whom the kernel does not count
        assert (result.limit, result.signal) == ("processes", signal.SIGKILL)
    else:
        assert result.exitCode == 1 and "BlockingIOError" in result.stderr.excerpt


def test_ordinary_work_is_not_a_bomb(rig: Rig) -> None:
    code = """
        import multiprocessing, os, socket, tempfile, threading
        def twice(x): return 2 * x
        if __name__ == "__main__":
            for method in ("fork", "forkserver"):
                with multiprocessing.get_context(method).Pool(4) as pool:
                    print(pool.map(abs, range(-3, 0)))
            os.openpty()
            from multiprocessing import shared_memory
            m = shared_memory.SharedMemory(create=True, size=1000); m.unlink(); m.close()
            s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname())
            print(os.path.expanduser("~"), tempfile.gettempdir(), os.getlogin if 0 else "")
    """
    (rig.workspace / "main.py").write_text("\n".join(line[8:] for line in code.split("\n")))
    result = rig.run(PYTHON, "-I", "main.py", env={"PATH": "/usr/bin:/bin", "HOME": "/tmp/home"})
    assert result.stdout.excerpt == "[3, 2, 1]\n[3, 2, 1]\n/tmp/home /tmp \n", result.stderr.excerpt


class OneAnswer:
    """The smallest thing that can stand where the proxy stands."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._server: asyncio.Server | None = None
        self.denials = (Denial("denied.example", 443, "not allowed"),)

    async def start(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"proxied " + await reader.readline())
            writer.close()

        self._server = await asyncio.start_server(answer, sock=self._listener)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()


def test_a_listener_inside_is_served_from_outside_and_nothing_else_is_reached(rig: Rig) -> None:
    code = f"""
        import socket
        s = socket.create_connection(("127.0.0.1", {PROXY_PORT}), 10)
        s.sendall(b"hello\\n")
        print(s.recv(100).decode())
        for port in (int(p) for p in __import__("sys").argv[1:]):
            try:
                socket.create_connection(("127.0.0.1", port), 2); print("reached")
            except OSError as error:
                print(error.strerror)
    """

    async def act(launcher: Launcher) -> CommandResult:
        with socket.create_server(("127.0.0.1", 0)) as outside:
            what = command(rig.workspace, python(code, str(outside.getsockname()[1])))
            sandbox = rig.changed(domains=("example.com",))
            return await (await launcher.prepare(what, sandbox, rig.out, rig.err, proxy=OneAnswer)).run()

    result = with_launcher(act)
    assert result.stdout.excerpt == "proxied hello\n\nConnection refused\n", result.stderr.excerpt
    assert result.denials == (Denial("denied.example", 443, "not allowed"),)


def test_what_cannot_be_had_is_refused_not_weakened(rig: Rig) -> None:
    for sandbox in (
        rig.changed(domains=("example.com",)),  # and no proxy
        rig.changed(domains=("example.com",), tier="landlock"),
        rig.changed(reads=("/etc/shadow",)),
        rig.changed(reads=("/",)),
        rig.changed(writes=((str(rig.workspace), "/proc/x"),)),
        rig.changed(layers=(str(rig.workspace / "not-there"),)),
    ):
        result = rig.run(*sh("echo ran"), sandbox=sandbox)
        assert result.refused and result.error and not result.stdout.excerpt, sandbox


@pytest.mark.parametrize(
    "words",
    [
        "bwrap: setting up uid map: Permission denied",
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user …",
    ],
)
@pytest.mark.whoever
def test_why_a_machine_gives_no_sandbox_comes_with_the_remedy(words: str) -> None:
    text = host.explain("noise\n" + words + "\n")
    assert "AppArmor" in text and "Docker" in text and "landlock" in text and words in text
