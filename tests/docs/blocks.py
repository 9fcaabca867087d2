"""The fenced blocks of a document, and how they are run. CONTRIBUTING.md ("Documents are tests") has the convention."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
SECONDS = 60

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_FILE = re.compile(r"(?P<how>file|more of): (?P<name>[\w./-]+)")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Command(msgspec.Struct, frozen=True):
    """A `$ line` and the lines shown below it."""

    text: str
    shown: tuple[str, ...]


class Block(msgspec.Struct, frozen=True):
    """A fenced block; `note` is the comment right above it."""

    page: str
    line: int
    kind: str
    note: str
    body: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return (self.kind in ("console", "sh") and not self.note.startswith("not run")) or bool(self.file)

    @property
    def file(self) -> str:
        """The file that the block is, or is the next part of; empty if it is none."""
        found = _FILE.fullmatch(self.note)
        return found["name"] if found else ""

    @property
    def keys(self) -> list[tuple[str, str]] | None:
        """What is typed, and after which text; None if no terminal is needed."""
        name, _, value = self.note.partition(": ")
        return [(wait, keys) for wait, keys in json.loads(value)] if name == "at a terminal" else None

    @property
    def commands(self) -> list[Command]:
        if self.kind == "sh":
            return [Command(line, ()) for line in self.body.splitlines() if line and not line.startswith("#")]
        found: list[Command] = []
        for part in re.split(r"^\$ ", self.body, flags=re.MULTILINE)[1:]:
            text, _, shown = part.partition("\n")
            found.append(Command(text, tuple(shown.splitlines())))
        return found


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, m.start("kind")) + 1, m["kind"], m["note"] or "", m["body"])
        for m in _BLOCK.finditer(text)
    ]


class Shell:
    """Runs blocks one after another, in a folder that is kept between them like a person's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._where = folder.parent / f"{folder.name}.pwd"
        self._env = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "TERM": "xterm", "COLUMNS": "100"}

    def run(self, block: Block) -> None:
        """Run a block; every line it shows must come, in order. A block that is a file is written."""
        if block.file:
            mode = "a" if block.note.startswith("more of") else "w"
            (self.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            with (self.folder / block.file).open(mode, encoding="utf-8") as file:
                file.write(block.body if mode == "w" else f"\n\n{block.body}")
            return
        if block.keys is not None:
            [command] = block.commands
            outputs = [self._at_terminal(command.text, block.keys)]
        elif block.kind == "sh":
            self._script(f"set -e\n{block.body}")
            return
        else:
            outputs = self._console(block)
        for command, output in zip(block.commands, outputs, strict=True):
            missing = first_missing(command.shown, output)
            assert missing is None, f"{block}: `{command.text}` does not print {missing!r}; it prints:\n{output}"

    def _console(self, block: Block) -> list[str]:
        mark = "--8<-- end of command"
        # The exit code is kept across the mark, so that `echo $?` shows the command's.
        parts = [f'{c.text}\n__code=$?; printf "\\n%s\\n" "{mark}"; (exit $__code)\n' for c in block.commands]
        output = self._script("".join(parts) + "true\n")
        return output.split(f"\n{mark}\n")[:-1]

    def _script(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"{script}\npwd > {self._where}"],
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}:\n{script}\n{done.stdout}"
        self.folder = Path(self._where.read_text().strip())
        return done.stdout

    def _at_terminal(self, command: str, keys: list[tuple[str, str]]) -> str:
        """Run a command with a real terminal, typing each answer when its text has come."""
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            # `setsid --ctty` makes it the terminal's own session, so that Ctrl-C is a signal as at any terminal.
            ["setsid", "--ctty", "--wait", "bash", "-c", f"{command}\npwd > {self._where}"],
            cwd=self.folder,
            env=self._env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        output, seen, waiting = b"", 0, list(keys)
        try:
            for piece in _arriving(ours):
                output += piece
                while waiting and (found := output.find(waiting[0][0].encode(), seen)) >= 0:  # one piece may have two
                    seen = found + len(waiting[0][0].encode())
                    os.write(ours, waiting.pop(0)[1].encode())
            process.wait(timeout=SECONDS)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        text = as_seen(output.decode(errors="replace"))
        assert not waiting, f"`{command}` never said {waiting[0][0]!r}; it said:\n{text}"
        self.folder = Path(self._where.read_text().strip())
        return text


def _arriving(descriptor: int) -> Iterator[bytes]:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if not select.select([descriptor], [], [], 1.0)[0]:
            continue
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the other side is closed: the command has ended
            return
        if not piece:
            return
        yield piece


def as_seen(output: str) -> str:
    """Terminal output as a person reads it at the end: no escapes; what a carriage return overwrote is gone."""
    lines = _ESCAPES.sub("", output).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)


def first_missing(shown: tuple[str, ...], output: str) -> str | None:
    """The first shown line that does not come after the ones before it; `…` stands for anything, also for lines."""
    lines = iter([line.rstrip() for line in output.splitlines()])
    for text in shown:
        pattern = ".*".join(re.escape(part) for part in text.rstrip().split("…"))
        if text != "…" and not any(re.fullmatch(pattern, line) for line in lines):
            return text
    return None


def copy_examples(folder: Path) -> Path:
    """The examples, with replies that come faster: only the developer takes its time, so that Ctrl-C can meet it."""
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    replies = folder / "demo-replies.yaml"
    text = replies.read_text(encoding="utf-8")
    replies.write_text(re.sub(r"delayMs: [2-4]00\b", "delayMs: 0", text), encoding="utf-8")
    return folder
