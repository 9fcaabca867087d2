"""Tier "landlock" on a real process: what it holds, what it leaves, and that what it leaves is told."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestra.worker import confine, seccomp

pytestmark = pytest.mark.skipif(not confine.is_enough(confine.abi()), reason="this kernel has no Landlock 6")

# As the spawner does it: the module is read as a file, by an interpreter that has nothing else.
PROGRAM = """
import json, os, sys
asked = json.loads(sys.stdin.readline())
confine = {"__name__": "confine"}
exec(asked["module"], confine)
reads, writes = ([path.encode() for path in asked[name]] for name in ("reads", "writes"))
confine["restrict"](reads, writes, bytes.fromhex(asked["seccomp"]))
os.execv("/usr/bin/python3", ["python3", "-I", "-S", "-c", asked["script"], json.dumps(asked["facts"])])
"""
ATTEMPTS = """
import ctypes, json, os, signal, socket, sys
facts = json.loads(sys.argv[1]); out = {}
def attempt(name, do):
    try:
        do(); out[name] = 0
    except OSError as error:
        out[name] = error.errno
"""
SYSTEM = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/proc", "/dev/urandom", "/nowhere"]
NOT_ALLOWED = errno.EACCES


class Place:
    """A folder it may write to and one it may not even read."""

    def __init__(self, folder: Path, user: int | None) -> None:
        self.user = user
        self.inside, self.outside = folder / "inside", folder / "outside"
        for path in (folder, self.inside, self.outside):
            path.mkdir(exist_ok=True)
            path.chmod(0o777)
        self.secret = self.outside / "secret"
        self.secret.write_text("canary")
        self.secret.chmod(0o666)

    def run(self, script: str, **facts: object) -> dict[str, Any]:
        asked = {
            "module": Path(confine.__file__).read_text(),
            "reads": SYSTEM,
            "writes": [str(self.inside), "/dev/null"],
            "seccomp": seccomp.program(network=False).hex(),
            "script": ATTEMPTS + script + "\nprint(json.dumps(out))",
            "facts": {"inside": str(self.inside), "outside": str(self.outside), "secret": str(self.secret), **facts},
        }
        command = ["/usr/bin/python3", "-I", "-S", "-c", PROGRAM]
        text = json.dumps(asked) + "\n"
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, user=self.user, env={}, timeout=30, cwd="/"
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@pytest.fixture(params=["as we are", "unprivileged"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "unprivileged" and os.getuid() != 0:
        pytest.skip("we are unprivileged already")
    folder = Path(tempfile.mkdtemp(prefix="confine-"))
    try:
        yield Place(folder, 65534 if request.param == "unprivileged" else None)
    finally:
        shutil.rmtree(folder)


@pytest.mark.spec("S2-137")
def test_files_outside_are_closed_and_inside_is_open(place: Place) -> None:
    found = place.run("""
o, i, s = facts["outside"], facts["inside"], facts["secret"]
attempt("read", lambda: open(s).read())
attempt("write", lambda: open(s, "w"))
attempt("append", lambda: open(s, "a"))
attempt("truncate", lambda: os.truncate(s, 0))
attempt("list", lambda: os.listdir(o))
attempt("create", lambda: open(o + "/new", "w"))
attempt("mkdir", lambda: os.mkdir(o + "/dir"))
attempt("remove", lambda: os.remove(s))
attempt("rename in", lambda: os.rename(s, i + "/stolen"))
attempt("link in", lambda: os.link(s, i + "/linked"))
attempt("through a link", lambda: (os.symlink(s, i + "/sym"), open(i + "/sym").read()))
attempt("through /proc", lambda: open("/proc/self/root" + s).read())
attempt("/etc/passwd", lambda: open("/etc/passwd").read())
attempt("sysctl", lambda: open("/proc/sys/kernel/core_pattern", "w"))
attempt("device", lambda: os.mknod(i + "/dev", 0o20666, os.makedev(1, 3)))
attempt("socket file", lambda: os.mknod(i + "/sock", 0o140666))
attempt("inside", lambda: open(i + "/mine", "w").write("x"))
attempt("inside back", lambda: open(i + "/mine").read())
attempt("inside folder", lambda: os.makedirs(i + "/a/b"))
attempt("inside rename", lambda: os.rename(i + "/mine", i + "/a/b/mine"))
attempt("null", lambda: open("/dev/null", "w").write("x"))
attempt("fork and exec", lambda: os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0))
""")
    refused = ["read", "write", "append", "truncate", "list", "create", "mkdir", "remove", "through a link"]
    refused += ["through /proc", "/etc/passwd", "sysctl", "socket file"]
    others = {"rename in", "link in", "device"}  # their errno depends on the kernel's order of checks
    assert all(found.pop(name) != 0 for name in others)
    assert {name for name, number in found.items() if number} == set(refused)
    assert {found[name] for name in refused} == {NOT_ALLOWED}
    assert place.secret.read_text() == "canary"
    assert sorted(os.listdir(place.outside)) == ["secret"]
    assert sorted(os.listdir(place.inside)) == ["a", "sym"]


def test_other_processes_are_out_of_reach(place: Place) -> None:
    other = subprocess.Popen(["/usr/bin/sleep", "60"], env={"KEY": "canary"}, user=place.user)
    try:
        found = place.run(
            """
p = facts["pid"]
attempt("signal", lambda: os.kill(p, 0))
attempt("kill", lambda: os.kill(p, signal.SIGKILL))
attempt("pidfd", lambda: os.pidfd_open(p))
attempt("environment", lambda: open(f"/proc/{p}/environ").read())
attempt("memory", lambda: open(f"/proc/{p}/mem", "rb"))
attempt("descriptors", lambda: os.readlink(f"/proc/{p}/fd/0"))
attempt("root", lambda: os.listdir(f"/proc/{p}/root/tmp"))
attempt("limits", lambda: __import__("resource").prlimit(p, 7, (0, 0)))
child = os.posix_spawn("/usr/bin/sleep", ["sleep", "60"], {})
attempt("own child", lambda: (os.kill(child, signal.SIGKILL), os.waitpid(child, 0)))
""",
            pid=other.pid,
        )
        assert found.pop("own child") == 0
        assert 0 not in found.values(), found
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_no_socket_leads_out(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        path = str(place.inside / "service")
        unix.bind(path)
        os.chmod(path, 0o777)
        unix.listen()
        found = place.run(
            """
for family in range(64):
    for kind in (1, 2, 3, 5):
        attempt(f"{family} {kind}", lambda: socket.socket(family, kind))
attempt("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
a, b = socket.socketpair()
attempt("stream pair", lambda: a.send(b"x"))
attempt("connect a pair", lambda: a.connect(facts["unix"]))
""",
            port=tcp.getsockname()[1],
            unix=path,
        )
    assert found.pop("stream pair") == 0
    assert 0 not in found.values()


def test_root_has_no_capability_left(place: Place) -> None:
    found = place.run("""
lines = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
out = {name: lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp")}
out["CapBnd"] = lines["CapBnd"] if os.getuid() == 0 else "0" * 16
""")
    assert (found.pop("NoNewPrivs"), found.pop("Seccomp")) == ("1", "2")
    assert set(found.values()) == {"0" * 16}


def test_a_folder_to_write_that_is_not_there_is_an_error() -> None:
    script = "import sys; sys.path.insert(0, sys.argv[1]); import confine; confine.restrict([], [b'/nowhere'], b'')"
    folder = os.path.dirname(confine.__file__)
    done = subprocess.run(["/usr/bin/python3", "-S", "-c", script, folder], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "FileNotFoundError" in done.stderr


def test_what_it_does_not_hold_is_said_in_sentences() -> None:
    assert len(confine.NOT_HELD) >= 5
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in confine.NOT_HELD)


@pytest.mark.parametrize(("version", "enough"), [(0, False), (5, False), (6, True), (7, True)])
def test_landlock_6_is_the_oldest_that_holds(version: int, enough: bool) -> None:
    assert confine.is_enough(version) is enough
