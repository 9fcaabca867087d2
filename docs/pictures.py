"""Draws what the program really printed as SVG. docs/generate.py runs it; the pictures are in docs/pictures/.

1. A picture is drawn from one run at a real terminal, its replies from examples/demo-replies.yaml. What differs by day
   and machine is replaced, as in the transcripts.
2. It loads nothing: no font, no style, no script. So it looks the same offline, and a site that blocks these shows it.
3. Every word stands at its own place, and every Hangul syllable too: a font whose syllables are not as wide as two
   letters moves nothing (rich's own `export_svg` gives a syllable the width of one letter).
4. The background is part of the picture, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

import codecs
import fcntl
import io
import itertools
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
GOAL, CHECK = "greet people in Korean too", "python3 -m unittest -q"
QUESTION = re.compile(r"greeting\.py  modify \+.*?apply this patch \[y,n,a,d,e,\?,q\]\?", re.DOTALL)
SECONDS = 60

COLUMNS = 100
CELL, LINE, SIZE, EDGE = 8.4, 19, 14, 16  # width of a letter, height of a line, font size, margin; in pixels
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Noto Sans Mono CJK KR',D2Coding,monospace"
GROUND, FRAME, PLAIN, DIM = "#0d1117", "#484f58", "#e6edf3", "#9198a1"
COLOURS = {1: "#ff7b72", 2: "#56d364", 3: "#e3b341", 4: "#79c0ff", 5: "#d2a8ff", 6: "#76e3ea"}  # by their ANSI number


def pictures() -> dict[Path, str]:
    """Every picture: the prompt of a run's second patch, and the report of that run."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "greeting"
        shutil.copytree(ROOT / "examples" / "greeting", folder, ignore=shutil.ignore_patterns("__pycache__", ".runs"))
        replies = (ROOT / "examples" / "demo-replies.yaml").read_text(encoding="utf-8")
        (folder.parent / "demo-replies.yaml").write_text(re.sub(r"delayMs: \d+", "delayMs: 0", replies), "utf-8")
        screen = _at_a_terminal(folder, ["orchestra", "loop", GOAL, "--check", CHECK], answers=2)
        report = _at_a_terminal(folder, ["orchestra", "report", "last"], answers=0)
    _, fix, after = settled(screen).partition("\x1b[33m• 1 needs a fix: ")
    asked = QUESTION.search(after)
    assert asked is not None, f"the run never asked about a fix:\n{screen}"
    shown = settled(report).partition("\n## Output of failing checks")[0]
    title = f"$ orchestra loop {GOAL!r} --check {CHECK!r}\n…\n"
    return {
        ROOT / "docs/pictures/prompt.svg": svg(
            Text.from_ansi(title + fix + after[: asked.end()] + " █"), "The prompt: a patch, its reasons, the question"
        ),
        ROOT / "docs/pictures/report.svg": svg(Markdown(shown), "The report of a run"),
    }


# -- what is printed --------------------------------------------------------------------------------------------------


def _at_a_terminal(folder: Path, command: list[str], *, answers: int) -> str:
    """What a command prints at a terminal, with colours, as it is read at the end; each question is answered with y."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    clean = {n: v for n, v in os.environ.items() if not n.startswith("ORCHESTRA_") and n not in ("NO_COLOR", "LC_ALL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    env = {**clean, "PATH": path, "TERM": "xterm-256color", "TZ": "UTC", "LOGNAME": "mina", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    output, seen = "", 0
    try:
        for piece in _arriving(ours):
            output += piece
            if answers and (asked := QUESTION.search(output, seen)):
                seen, answers = asked.end(), answers - 1
                os.write(ours, b"y")
        process.wait(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert process.returncode == 0, f"{command} ended with exit code {process.returncode}:\n{output}"
    return _as_read(output).replace(str(folder), "demo/1/greeting")


def _arriving(descriptor: int) -> Iterator[str]:
    """The output of a terminal, piece by piece, whole characters only, until its last writer has ended."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if not select.select([descriptor], [], [], 1.0)[0]:
            continue
        try:
            yield decoder.decode(os.read(descriptor, 65536))
        except OSError:  # every writer has closed the terminal
            return


def _as_read(output: str) -> str:
    """Terminal output as it is read at the end: with its colours, without what was erased or drawn over."""
    output = re.sub(r"\x1b\[\?[0-9;]*[a-zA-Z]|\x1b\[[0-9]*[CD]", "", output)  # modes, and moves to where the text is
    lines = [re.split(r"\x1b\[[JK]", line.rstrip("\r"))[-1] for line in output.replace("\r\n", "\n").split("\n")]
    return "\n".join(lines)


def settled(text: str) -> str:
    """The text without what differs by day and machine."""
    text = re.sub(r"\b\d{4}-\d{2}-\d{2}_", "2026-01-31_", text)
    text = re.sub(r"\b\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", "2026-01-31 09:00:00", text)
    text = re.sub(r"\b\d+\.\d s\b", "0.1 s", text)
    return re.sub(r"(Ran \d+ tests? in )\d+\.\d+s", r"\g<1>0.001s", text)


# -- how it is drawn --------------------------------------------------------------------------------------------------


def svg(content: RenderableType, title: str) -> str:
    """A picture of a terminal with this content."""
    console = Console(file=io.StringIO(), width=COLUMNS, color_system="standard", force_terminal=True, _environ={})
    lines = list(_closed_up(console.render_lines(content, console.options.update(max_width=COLUMNS), pad=False)))
    width, height = round(COLUMNS * CELL + 2 * EDGE), len(lines) * LINE + 2 * EDGE
    drawn = [word for number, line in enumerate(lines) for word in _words(line, EDGE + number * LINE + SIZE)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>text{{font:{SIZE}px {FONTS};fill:{PLAIN}}}.w{{text-anchor:middle;font-size:{SIZE + 1}px}}"
            + f".b{{font-weight:bold}}.d{{fill:{DIM}}}"
            + "".join(f".c{number}{{fill:{colour}}}" for number, colour in COLOURS.items())
            + "</style>",
            f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="{GROUND}" stroke="{FRAME}"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _closed_up(lines: list[list[Segment]]) -> Iterator[list[Segment]]:
    """The lines with at most one empty line in a row, and none at the end."""
    empty = [not "".join(segment.text for segment in line).strip() for line in lines]
    for number, line in enumerate(lines):
        if not empty[number] or not all(empty[number + 1 : number + 2]):
            yield line


def _words(line: list[Segment], y: int) -> Iterator[str]:
    """Each word of a line at its place, and each wide character of a word (rule 3)."""
    column = 0
    for segment in line:
        looks = _classes(segment.style or Style())
        for wide, letters in itertools.groupby(segment.text, key=lambda letter: cell_len(letter) > 1):
            for piece in letters if wide else re.findall(r" +|[^ ]+", "".join(letters)):
                if not piece.isspace():
                    yield _text(piece, column, y, [*looks, "w"] if wide else looks)
                column += cell_len(piece)


def _text(piece: str, column: int, y: int, looks: list[str]) -> str:
    """One element: a word, stretched to the width it must have, or a wide character in the middle of its two cells."""
    x = EDGE + (column + ("w" in looks)) * CELL
    length = f' textLength="{len(piece) * CELL:.1f}"' if len(piece) > 1 else ""
    classes = f' class="{" ".join(looks)}"' if looks else ""
    return f'<text x="{x:.1f}" y="{y}"{length}{classes}>{escape(piece, quote=False)}</text>'


def _classes(style: Style) -> list[str]:
    """The classes of an element, from the style of its text."""
    number = (style.color.number or 0) % 8 if style.color else 0
    colour = [f"c{number}"] if number in COLOURS else ["d"] if style.dim else []
    return [*colour, *(["b"] if style.bold else [])]
