"""The terminal UI for real in tmux: keys are sent, the pane is captured, the cursor is asked for."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.evidence import main, planning
from tests.support.project import PROGRAM, Project

NUMBERED = "".join(f"행 {number:04d}\n" for number in range(600))
needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


class Tmux:
    """A server of its own, with one window."""

    def __init__(self, socket: Path, folder: Path, *command: str) -> None:
        self._words = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        shown = shlex.join(["env", "LANG=C.UTF-8", *command])
        shown += "; echo ended with $?; exec cat"  # tmux itself does not always tell the exit code
        self("new-session", "-d", "-x", "100", "-y", "30", "-c", str(folder), shown)

    def __call__(self, *words: str) -> str:
        done = subprocess.run([*self._words, *words], capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    def type(self, text: str) -> None:
        self("send-keys", "-l", text)

    @property
    def pane(self) -> list[str]:
        return self("capture-pane", "-p").splitlines()

    @property
    def log(self) -> list[str]:
        return self("capture-pane", "-p", "-S", "-").splitlines()

    @property
    def cursor(self) -> str:
        return self("display-message", "-p", "#{cursor_x},#{cursor_y} #{cursor_flag} #{alternate_on}").strip()

    def wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, "\n".join(self.pane)
            time.sleep(0.03)

    def wait_for(self, text: str) -> None:
        self.wait(lambda: any(text in row for row in self.pane))


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    reply = main(f"{NUMBERED}끝줄", "execute", chunk=8, delayMs=4000)
    project = Project(tmp_path / "p", planning("final_report"), reply)
    window = Tmux(tmp_path / "s", project.path, PROGRAM, "tui", "--provider", f"scripted:{project.script}")
    try:
        yield window
    finally:
        window("kill-server")


@needs_tmux
@pytest.mark.spec("S5-22", "S5-79", "S5-84")
def test_in_tmux_hangul_is_at_the_cursor_in_sixty_of_sixty_samples_and_every_line_is_in_the_history_once(
    tmux: Tmux,
) -> None:
    tmux.wait_for("session tui: new")
    assert [row[:6] for row in tmux.log].count(" /help") == 1  # tmux keeps no copy of the rows that were drawn first
    tmux.type("한글 입력")
    tmux.wait_for("> 한글 입력")
    assert tmux.cursor.partition(",")[0] == "11" and tmux.cursor.endswith("1 0")  # visible, no alternate screen
    tmux("send-keys", "BSpace", "BSpace", "Enter")
    tmux.wait(lambda: sum(row.startswith("행 ") for row in tmux.log) > 40)
    tmux.type("한글입력")
    tmux.wait_for("> 한글입력")
    samples = {tmux.cursor for _ in range(60)}
    assert samples == {"10,29 1 0"}
    tmux("resize-window", "-x", "60", "-y", "30")
    tmux("resize-window", "-x", "100", "-y", "30")
    tmux.wait_for("끝줄")
    found = [int(row[2:]) for row in tmux.log if re.fullmatch(r"행 \d{4}", row)]
    assert found == list(range(600))
    tmux("send-keys", "C-c")
    tmux.type("/exit")
    tmux("send-keys", "Enter")
    tmux.wait_for("ended with 0")
