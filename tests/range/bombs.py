"""Programs that use up what there is, or stay when they should be gone. Each is a launch of its own, with small limits."""

# ruff: noqa: E501  # one program, one line

from __future__ import annotations

from typing import NamedTuple

from orchestra.worker.task import MIB, Limits

SMALL = Limits(
    memory_bytes=256 * MIB, processes=64, open_files=256, file_bytes=64 * MIB, disk_bytes=96 * MIB, files=4000,
    tmp_bytes=96 * MIB,
)  # fmt: skip


class Bomb(NamedTuple):
    """What is run, and how it may end: by a limit, by time, by its own failure, or well."""

    code: str
    ended: tuple[str, ...]
    timeout_ms: int = 20_000
    limits: Limits = SMALL


BOMBS = {
    # -- memory
    "memory of one process": Bomb("a = []\nwhile True: a.append(bytearray(1 << 20))", ("memory", "failed")),
    "memory of many processes": Bomb(
        "import os, time\nfor _ in range(12):\n if os.fork() == 0:\n  a = bytearray(60 << 20); time.sleep(60); os._exit(0)\ntime.sleep(60)",
        ("memory",),
    ),
    "memory shared": Bomb(
        "import mmap, time\nm = mmap.mmap(-1, 400 << 20)\nfor i in range(0, 400 << 20, 4096): m[i] = 1\ntime.sleep(60)",
        ("memory", "failed"),
    ),
    "memory in a file without a name": Bomb(
        "import os, time\nfor _ in range(10):\n f = os.memfd_create('x')\n for _ in range(60): os.write(f, bytes(1 << 20))\ntime.sleep(60)",
        ("memory", "failed", "time"), 5_000,
    ),
    "memory files on their way": Bomb(
        "import os, socket, time\nk = []\nfor _ in range(12):\n f = os.memfd_create('x')\n for _ in range(50): os.write(f, bytes(1 << 20))\n k.append(socket.socketpair()); socket.send_fds(k[-1][0], [b'x'], [f]); os.close(f)\ntime.sleep(60)",
        ("memory",),
    ),
    "memory files only mapped": Bomb(
        "import os, mmap, time\nk = []\nfor _ in range(12):\n f = os.memfd_create('x')\n for _ in range(50): os.write(f, bytes(1 << 20))\n k.append(mmap.mmap(f, 50 << 20))\n os.closerange(3, 99)\ntime.sleep(60)",
        ("memory",),
    ),
    "memory files of a program that cannot be read": Bomb(
        "import os, shutil, sys\nshutil.copy('/usr/bin/python3', '/tmp/p'); os.chmod('/tmp/p', 0o111)\n"
        "c = \"import os, time\\nfor _ in range(12):\\n f = os.memfd_create('x')\\n for _ in range(50): os.write(f, bytes(1 << 20))\\ntime.sleep(60)\"\n"
        "os.execv('/tmp/p', ['p', '-I', '-S', '-c', c, sys.argv[1]])",
        ("memory",),
    ),
    "shared memory of System V": Bomb(
        "import ctypes, sys\nl = ctypes.CDLL(None)\nif l.shmget(0, 50 << 20, 0o1600) < 0: sys.exit(7)", ("failed",)
    ),
    "memory in /dev/shm": Bomb(
        "import time\nfor n in range(100):\n with open(f'/dev/shm/{n}', 'wb') as f: f.write(bytes(8 << 20))\ntime.sleep(60)",
        ("memory", "failed", "disk"),
    ),
    # -- disk
    "one large file": Bomb("f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))", ("failed",)),
    "one sparse file": Bomb("import os\nos.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 42)", ("failed",)),
    "many large files": Bomb(
        "import time\nfor n in range(100):\n with open(f'big{n}', 'wb') as f: f.write(bytes(16 << 20))\ntime.sleep(60)",
        ("disk",),
    ),
    "a large file in /tmp": Bomb("f = open('/tmp/big', 'wb')\nwhile True: f.write(bytes(1 << 20))", ("failed", "disk")),
    "many large files in /tmp": Bomb(
        "import time\nfor n in range(100):\n with open(f'/tmp/big{n}', 'wb') as f: f.write(bytes(16 << 20))\ntime.sleep(60)",
        ("failed", "disk", "memory"),
    ),
    "a large removed file": Bomb(
        "import os, time\nfor n in range(20):\n f = open('gone', 'wb'); os.remove('gone'); os.dup(f.fileno()); f.write(bytes(32 << 20)); f.flush()\ntime.sleep(60)",
        ("disk", "time", "failed"), 5_000,
    ),
    "removed files on their way": Bomb(
        "import os, socket, time\nk = []\nfor n in range(12):\n f = os.open('gone', os.O_CREAT | os.O_RDWR); os.remove('gone')\n for _ in range(50): os.write(f, bytes(1 << 20))\n k.append(socket.socketpair()); socket.send_fds(k[-1][0], [b'x'], [f]); os.close(f)\ntime.sleep(60)",
        ("disk",),
    ),
    "removed files only mapped": Bomb(
        "import os, mmap, time\nk = []\nfor n in range(12):\n f = os.open('gone', os.O_CREAT | os.O_RDWR); os.remove('gone')\n for _ in range(50): os.write(f, bytes(1 << 20))\n k.append(mmap.mmap(f, 50 << 20))\n os.closerange(3, 99)\ntime.sleep(60)",
        ("disk",),
    ),
    # -- numbers of things
    "many files": Bomb("n = 0\nwhile True: open(f'f{n}', 'w').close(); n += 1", ("files",)),
    "many folders": Bomb("import os\nn = 0\nwhile True: os.mkdir(f'd{n}'); n += 1", ("files",)),
    "many files in /tmp": Bomb("n = 0\nwhile True: open(f'/tmp/f{n}', 'w').close(); n += 1", ("files", "failed", "memory")),
    "many files in /dev/shm": Bomb("n = 0\nwhile True: open(f'/dev/shm/f{n}', 'w').close(); n += 1", ("files", "failed", "memory")),
    "many links": Bomb("import os\nn = 0\nwhile True: os.symlink('x', f'l{n}'); n += 1", ("files",)),
    "many processes": Bomb(
        "import os, time\nfor _ in range(300):\n try:\n  if os.fork() == 0: time.sleep(60)\n except OSError: os._exit(7)\ntime.sleep(60)",
        ("failed", "processes"), 5_000,
    ),
    "processes without end": Bomb(
        "import os\nwhile True:\n try: os.fork()\n except OSError: pass", ("time", "processes"), 1_500,
    ),
    "threads without end": Bomb(
        "import os, threading, time\ntry:\n while True: threading.Thread(target=time.sleep, args=(60,)).start()\nexcept RuntimeError: os._exit(7)",
        ("failed", "processes", "memory"), 10_000,
    ),
    "many open files": Bomb("import os\na = [os.open('/dev/null', 0) for _ in range(300)]", ("failed",)),
    "many pipes": Bomb("import os\na = [os.pipe() for _ in range(300)]", ("failed",)),
    # -- output
    "output without end": Bomb("import os\nwhile True: os.write(1, b'x' * 65536 + b'\\n')", ("time",), 2_000),
    "much output": Bomb("import os\nfor _ in range(800): os.write(1, b'line of output\\n' * 4096)", ("cut",)),
    "much output of both streams": Bomb(
        "import os\nfor _ in range(200): os.write(1, b'out\\n' * 16384); os.write(2, b'err\\n' * 16384)", ("cut",)
    ),
    "a line of 2 MB": Bomb("import os\nos.write(1, b'a' * (2 << 20)); os.write(1, b'\\n')", ("fine",)),
    "a line of 2 MB without an end": Bomb("import sys\nsys.stdout.write('b' * (2 << 20))", ("fine",)),
    "bytes that are no text": Bomb("import os\nfor _ in range(64): os.write(1, bytes(range(256)) * 256)", ("cut", "fine")),
    "output of a stopped program": Bomb("import os, signal\nos.write(1, b'x'); os.kill(os.getpid(), signal.SIGSTOP)", ("time",), 1_000),
    # -- time
    "waits for ever": Bomb("import time\ntime.sleep(1000)", ("time",), 600),
    "counts for ever": Bomb("while True: pass", ("time",), 600),
    "will not be told": Bomb(
        "import signal, time\nfor n in range(1, 32):\n try: signal.signal(n, signal.SIG_IGN)\n except OSError: pass\nwhile True: time.sleep(1)",
        ("time",), 600,
    ),
    "waits for input": Bomb("import sys\nsys.exit(len(sys.stdin.read()))", ("fine",)),
    # -- left behind
    "a daemon": Bomb(
        "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  [os.close(n) for n in (0, 1, 2)]; time.sleep(600)\n os._exit(0)",
        ("fine",),
    ),
    "a daemon that holds the output": Bomb("import os, time\nif os.fork() == 0: os.setsid(); time.sleep(600)", ("fine", "time"), 3_000),
    "a daemon that will not be told": Bomb(
        "import os, signal, time\nif os.fork() == 0:\n os.setsid(); [signal.signal(n, 1) for n in (1, 2, 3, 15)]; [os.close(n) for n in (0, 1, 2)]\n while True: time.sleep(1)",
        ("fine",),
    ),
    "a stopped child": Bomb(
        "import os, signal, time\np = os.fork()\nif p == 0: [os.close(n) for n in (0, 1, 2)]; os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(0.05)",
        ("fine",),
    ),
    "a child that forks away": Bomb(
        "import os, time\nif os.fork() == 0:\n os.setsid(); [os.close(n) for n in (0, 1, 2)]\n for _ in range(2000):\n  if os.fork(): os._exit(0)\n  os.setsid()\n time.sleep(600)",
        ("fine",),
    ),
    "a program that ends its session": Bomb("import os, signal\nos.killpg(0, signal.SIGKILL)", ("failed",)),
    "a program that ends everything": Bomb(
        "import os, signal, sys\nif os.readlink('/proc/self/ns/pid') and os.getpid() < 100: os.kill(-1, signal.SIGKILL)\nsys.exit(3)", ("failed",)
    ),
}  # fmt: skip
