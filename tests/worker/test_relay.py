"""Services of this machine, reached from the sandbox by port: real servers on loopback, real commands."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestra.worker.relay import CONNECTIONS
from tests.worker.rig import Rig, python

Handle = Callable[[socket.socket], None]


@contextlib.contextmanager
def serving(handle: Handle, address: str = "127.0.0.1") -> Iterator[int]:
    """A server on loopback, a thread for each connection; its port."""

    class Server(socketserver.ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        daemon_threads = True
        request_queue_size = 256

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                handle(self.request)

    with Server((address, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def echo(sock: socket.socket) -> None:
    """Send everything back, until the client's end."""
    while data := sock.recv(1 << 16):
        sock.sendall(data)


def whole_question(sock: socket.socket) -> None:
    """Answer when the client has ended its direction: only a half-close gets this far."""
    size = 0
    while data := sock.recv(1 << 16):
        size += len(data)
    sock.sendall(f"got {size}".encode())


CLIENT = """
    import socket, sys
    def ask(port, text, host="127.0.0.1"):
        with socket.create_connection((host, int(port)), 20) as sock:
            sock.sendall(text)
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(1 << 16), b""))
"""


def test_an_opened_port_is_reached_and_no_other(tmp_path: Path) -> None:
    code = f"""{CLIENT}
    print(ask(sys.argv[1], b"hello").decode())
    for port in sys.argv[2:]:
        try:
            print(ask(port, b"x"))
        except OSError as error:
            print(type(error).__name__)
    """
    with serving(echo) as opened, serving(echo) as closed:
        rig = Rig(tmp_path, loopback=(opened,))
        done = rig.run(*python(code, str(opened), str(closed)))
    assert done.stdout.excerpt.split() == ["hello", "ConnectionRefusedError"], done
    assert (done.exitCode, done.denials) == (0, ())


def test_without_an_opened_port_there_is_no_service(tmp_path: Path) -> None:
    with serving(echo) as port:
        done = Rig(tmp_path).run(*python(f"{CLIENT}\n    ask(sys.argv[1], b'x')", str(port)))
    assert "ConnectionRefusedError" in done.stderr.excerpt


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_service_is_reached_by_either_loopback_address(tmp_path: Path, host: str, address: str) -> None:
    with serving(echo, address) as port:
        code = f"{CLIENT}\n    print(ask(sys.argv[1], b'hello', sys.argv[2]).decode())"
        done = Rig(tmp_path, loopback=(port,)).run(*python(code, str(port), host))
    assert done.stdout.excerpt == "hello\n", done


def test_a_half_closed_connection_still_gets_its_answer(tmp_path: Path) -> None:
    with serving(whole_question) as port:
        code = f"{CLIENT}\n    print(ask(sys.argv[1], b'x' * 3_000_000).decode())"
        done = Rig(tmp_path, loopback=(port,)).run(*python(code, str(port)))
    assert done.stdout.excerpt == "got 3000000\n", done


def test_much_goes_both_ways_at_once(tmp_path: Path) -> None:
    code = """
    import hashlib, socket, sys, threading
    data = bytes(range(256)) * 131072
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
    def send():
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    threading.Thread(target=send).start()
    got = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    print(len(got), hashlib.sha256(got).digest() == hashlib.sha256(data).digest())
    """
    with serving(echo) as port:
        done = Rig(tmp_path, loopback=(port,)).run(*python(code, str(port)))
    assert done.stdout.excerpt == "33554432 True\n", done


def test_many_connections_at_once_and_more_than_there_is_room_for(tmp_path: Path) -> None:
    code = """
    import socket, sys, threading
    port, number = int(sys.argv[1]), int(sys.argv[2])
    right = []
    def one(n):
        with socket.create_connection(("127.0.0.1", port), 60) as sock:
            for turn in range(5):  # a connection that is kept open between questions
                sock.sendall(b"%05d" % n)
                if sock.recv(5, socket.MSG_WAITALL) == b"%05d" % n:
                    right.append(n)
    threads = [threading.Thread(target=one, args=(n,)) for n in range(number)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(len(right))
    """
    number = 2 * CONNECTIONS
    with serving(echo) as port:
        done = Rig(tmp_path, loopback=(port,)).run(*python(code, str(port), str(number)))
    assert done.stdout.excerpt == f"{5 * number}\n", done


def test_a_server_that_closes_first_is_seen_to(tmp_path: Path) -> None:
    def brief(sock: socket.socket) -> None:
        sock.sendall(b"bye")
        sock.close()

    code = """
    import socket, sys
    for turn in range(3):
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) as sock:
            print(b"".join(iter(lambda: sock.recv(100), b"")).decode())
    """
    with serving(brief) as port:
        done = Rig(tmp_path, loopback=(port,)).run(*python(code, str(port)))
    assert done.stdout.excerpt == "bye\n" * 3, done


def test_a_port_without_a_service_is_named(tmp_path: Path) -> None:
    with serving(echo) as port:
        pass  # it is free again
    code = """
    import socket, sys
    for turn in range(2):
        try:
            with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) as sock:
                print(sock.recv(100))
        except ConnectionResetError:
            print("reset")
    """
    done = Rig(tmp_path, loopback=(port,)).run(*python(code, str(port)))
    assert done.stdout.excerpt == "reset\nreset\n", done
    [denial] = done.denials
    assert (denial.port, denial.times) == (port, 2) and "no service" in denial.reason


def test_connections_end_with_the_command(tmp_path: Path) -> None:
    ended = threading.Event()

    def patient(sock: socket.socket) -> None:
        try:
            while sock.recv(100):
                sock.sendall(b"y")
        finally:
            ended.set()

    code = """
    import os, socket, sys
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20)
    sock.sendall(b"x")
    sock.recv(1)  # the service has it
    os._exit(3)
    """
    with serving(patient) as port:
        done = Rig(tmp_path, loopback=(port,)).run(*python(code, str(port)))
        assert ended.wait(20), "the service must see that the command is gone"
    assert done.exitCode == 3


def test_tier_landlock_refuses_ports(tmp_path: Path) -> None:
    done = Rig(tmp_path, tier="landlock", loopback=(5432,)).run("/bin/true")
    assert done.refused and "tier landlock" in (done.error or "")
