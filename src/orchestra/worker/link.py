"""Link: orchestra's end of the line to its spawner. Knows messages and descriptors, nothing of what they are for.

Rules
1. One spawner for one launcher in one event loop. It is started at the first use and, if it died, at the next.
2. Sending never waits: what the socket does not take at once is sent when it can.
3. When the spawner ends, however it does, every listener hears `lost`, once.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path

from orchestra.worker.host import Prepared

_SPAWNER = str(Path(__file__).with_name("spawner.py"))
_END_S = 15.0  # the spawner's own patience is 10 s
_LONGEST, _PASSED = 4096, socket.CMSG_SPACE(4)  # of what the spawner says; a listener comes alone
Hear = Callable[..., None]  # word, then what was said; descriptors as `fds`


class Link:
    """A spawner process and the socket to it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.prepared = Prepared(Path(tempfile.mkdtemp(prefix="orchestra-sandbox-")))
        self.last_words = ""  # why it died, if it said so
        self._listeners: dict[int, Hear] = {}
        self._next = 0
        self._unsent: list[tuple[bytes, list[int]]] = []
        self._stuck = False  # the socket takes no more for now
        self._lost = asyncio.Event()
        self._words = os.memfd_create("spawner", os.MFD_CLOEXEC)  # not our own stderr: it would hold that open
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # close_fds and an empty environment: it holds nothing of ours (MS-3.1, MS-3.6).
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SPAWNER, str(theirs.fileno()), str(self.prepared.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._socket.setblocking(False)
        self.loop.add_reader(self._socket.fileno(), self._receive)

    @property
    def pid(self) -> int:
        """The spawner's."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked for something, here."""
        return not self._lost.is_set() and self.loop is asyncio.get_running_loop()

    def add(self, hear: Hear) -> int:
        """A number under which messages are exchanged from now on."""
        self._next += 1
        self._listeners[self._next] = hear
        return self._next

    def remove(self, number: int) -> None:
        """Hear nothing more under this number."""
        self._listeners.pop(number, None)

    def send(self, *message: str | int, fds: list[int] | None = None) -> None:
        """Say something; the descriptors are ours no longer."""
        self._unsent.append((marshal.dumps(message), fds or []))
        if len(self._unsent) == 1:
            self._flush()

    async def close(self) -> None:
        """Hang up and wait until everything it started, and it itself, is gone."""
        if self._lost.is_set():
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)  # what it would see if we died: one way to end, always tested
            async with asyncio.timeout(_END_S):
                await self._lost.wait()
        except (OSError, TimeoutError):
            self._process.kill()  # it did not answer: nothing more can be done through it
        finally:
            self._lose()

    def _flush(self) -> None:
        while self._unsent:
            data, fds = self._unsent[0]
            try:
                self._socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else [])
            except BlockingIOError:
                self._stuck = True
                self.loop.add_writer(self._socket.fileno(), self._flush)
                return
            except OSError:
                pass  # it died: the reader says so
            del self._unsent[0]
            for fd in fds:
                os.close(fd)
        if self._stuck and not self._lost.is_set():
            self._stuck = False
            self.loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        try:
            data, parts, _, _ = self._socket.recvmsg(_LONGEST, _PASSED, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, parts = b"", []
        if not data:
            self._lose()
            return
        fds = [int.from_bytes(part, sys.byteorder) for _, _, part in parts]
        word, number, *rest = marshal.loads(data)
        hear = self._listeners.get(number)
        if hear:
            hear(word, *rest, fds=fds)
        else:
            for fd in fds:
                os.close(fd)

    def _lose(self) -> None:
        if self._lost.is_set():
            return
        self.loop.remove_reader(self._socket.fileno())
        self.loop.remove_writer(self._socket.fileno())
        self._lost.set()
        self._socket.close()
        for _, fds in self._unsent:
            for fd in fds:
                os.close(fd)
        self._unsent.clear()
        self.last_words = os.pread(self._words, 2000, max(0, os.fstat(self._words).st_size - 2000)).decode(
            "utf-8", "replace"
        )
        os.close(self._words)
        self._process.wait()  # it closed its socket by exiting, or was killed: no wait worth the name
        self.prepared.remove()
        for hear in list(self._listeners.values()):
            hear("lost", fds=[])
