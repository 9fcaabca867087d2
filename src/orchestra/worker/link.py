"""Link: orchestra's side of the socket to the spawner. Carries messages and descriptors; does not interpret them.

Rules
1. One spawner for one launcher in one event loop. It is started at the first use, and again at the next use if it died.
2. Sending never waits: what the socket does not accept at once is queued and sent later.
3. When the spawner ends, for whatever reason, every registered callback gets `lost` once.
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
from orchestra.worker.task import MOST_PORTS

_SPAWNER = str(Path(__file__).with_name("spawner.py"))
_END_S = 15.0  # the spawner itself waits up to 10 s
# of a message from the spawner, and of the descriptors that come with it: two for each port (keeper.py)
_LONGEST, _PASSED = 4096, socket.CMSG_SPACE(4 * 2 * (MOST_PORTS + 1))
Hear = Callable[..., None]  # a callback: message name, then its values; descriptors as `fds`


class Link:
    """A spawner process and the socket to it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.prepared = Prepared(Path(tempfile.mkdtemp(prefix="orchestra-sandbox-")))
        self.last_words = ""  # the spawner's stderr after it died
        self._listeners: dict[int, Hear] = {}
        self._next = 0
        self._unsent: list[tuple[bytes, list[int]]] = []
        self._stuck = False  # the socket accepts no more for now
        self._lost = asyncio.Event()
        self._words = os.memfd_create("spawner", os.MFD_CLOEXEC)  # the spawner's stderr; ours would be held open by it
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # close_fds and an empty environment: the spawner inherits nothing (MS-3.1, MS-3.6).
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
        """The pid of the spawner."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether messages can still be sent to the spawner from this event loop."""
        return not self._lost.is_set() and self.loop is asyncio.get_running_loop()

    def add(self, hear: Hear) -> int:
        """Register a callback; return the number that its messages carry."""
        self._next += 1
        self._listeners[self._next] = hear
        return self._next

    def remove(self, number: int) -> None:
        """Remove the callback of this number."""
        self._listeners.pop(number, None)

    def send(self, *message: str | int, fds: list[int] | None = None) -> None:
        """Send a message, now or later; the descriptors belong to the link from then on."""
        self._unsent.append((marshal.dumps(message), fds or []))
        if len(self._unsent) == 1:
            self._flush()

    async def close(self) -> None:
        """Close the socket and wait until the spawner and all its commands have ended."""
        if self._lost.is_set():
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)  # the same end-of-file as if we died: one way to end, always tested
            async with asyncio.timeout(_END_S):
                await self._lost.wait()
        except (OSError, TimeoutError):
            self._process.kill()  # the spawner did not end: nothing more can be done through it
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
                pass  # the spawner died: the reader reports that
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
        fds = [int.from_bytes(part[i : i + 4], sys.byteorder) for _, _, part in parts for i in range(0, len(part), 4)]
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
        self._process.wait()  # the spawner has exited or was killed, so this does not block
        self.prepared.remove()
        for hear in list(self._listeners.values()):
            hear("lost", fds=[])
