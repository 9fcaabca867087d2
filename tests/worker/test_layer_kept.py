"""What a command leaves besides changes: layers that stay, folders to remove, outputs that are handed over."""

from __future__ import annotations

import base64
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import DiskFull
from orchestra.core.redact import Redactor
from orchestra.worker.kept import fold
from orchestra.worker.layer import Harvest, LayerBounds, changes
from orchestra.worker.outputs import TRAY_MODE, Room, Tray, collect
from orchestra.worker.removal import discard
from tests.support.others import needs_open_checkout
from tests.worker.overlay import NOBODY, USERS, Make, Place, by_path, deep, ignored, reasons

# -- what stays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uid", USERS)
def test_ignored_output_stays_as_a_layer_that_hides_nothing(make: Make, uid: int | None) -> None:
    place = make(uid)
    place.write({"src/a.py": "a\n", "src/b.py": "b\n", "build/old": "old\n", "x.log": "x\n", "lib/c.py": "c\n"})
    place.run(
        """
        mkdir src/__pycache__; echo pyc > src/__pycache__/a.pyc; echo changed > src/a.py; rm src/b.py
        rm -r build; mkdir build; echo new > build/out; ln -s out build/link; mkfifo build/pipe; chmod 700 build
        cp /bin/true build/tool; chmod 4755 build/tool; mkdir build/dark; echo d > build/dark/file; chmod 0 build/dark
        rm x.log; rm -r lib; mkdir lib; echo l > lib/l.log; mkdir junk; ln -s / junk/root; chmod 0 src
        """
    )
    harvest = _as_owner(place)
    assert harvest.kept == ("build", "lib/l.log")  # src is shut by its own mode: refused as a whole
    assert set(reasons(harvest)) == {"src", "junk/root"}
    assert by_path(harvest) == {"lib/c.py": (b"c\n", None)}
    os.chmod(place.upper / "src", 0o755)
    harvest = _as_owner(place)
    assert harvest.kept == ("build", "lib/l.log", "src/__pycache__")
    _as_owner(place, then_prune=True)
    left = sorted(str(path.relative_to(place.upper)) for path in place.upper.rglob("*"))
    kept = "build build/dark build/dark/file build/link build/out build/tool lib lib/l.log src src/__pycache__"
    assert left == [*kept.split(), "src/__pycache__/a.pyc"]
    assert stat.S_IMODE((place.upper / "build/tool").stat().st_mode) == 0o755
    # The next command sees the workspace, with the kept output over it.
    layer = place.root / "layer"
    place.upper.rename(layer)
    assert discard(place.work) == ()
    for folder in (place.upper, place.work):
        folder.mkdir()
    place.own()
    seen = place.run("find . -type f | sort; cat src/a.py build/out", layers=(layer,))
    files = "./build/dark/file ./build/old ./build/out ./build/tool ./lib/c.py ./lib/l.log ./src/__pycache__/a.pyc"
    assert seen.split() == [*files.split(), "./src/a.py", "./src/b.py", "./x.log", "a", "new"]
    assert place.harvest() == Harvest()


def _as_owner(place: Place, *, then_prune: bool = False) -> Harvest:
    """Harvest (and prune) as the user who owns the folders: what root may do proves nothing for a user."""
    code = f"""
import base64, pathlib, sys
from orchestra.worker.kept import prune
from orchestra.worker.layer import changes
root = pathlib.Path(sys.argv[1])
def ignored(path, is_folder):
    return path.rsplit("/", 1)[-1] in {{"__pycache__", "build", ".git"}} or path.endswith(".log")
harvest = changes(root / "upper", root / "ws", ignored=ignored)
if {then_prune}:
    assert prune(root / "upper", harvest) == ()
import msgspec
print(base64.b64encode(msgspec.msgpack.encode(harvest)).decode())
"""
    return msgspec.msgpack.decode(base64.b64decode(place.call(code)), type=Harvest)


@pytest.mark.whoever
def test_layers_are_folded_into_one(make: Make) -> None:
    place = make(None)
    one, two = place.root / "one", place.root / "two"
    for layer, files in ((one, ["build/a", "build/b/c", "x/y", "same"]), (two, ["build/a", "build/b", "x/z/w"])):
        for name in files:
            path = layer / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{layer.name}\n")
    os.symlink("/nowhere", one / "x" / "link")
    os.symlink("build", two / "same")
    fold((one, two), place.root / "both")
    seen = place.run("cat build/a build/b x/y x/z/w; readlink x/link same", layers=(place.root / "both",))
    assert seen.split() == ["two", "two", "one", "two", "/nowhere", "build"]
    assert (one / "build/b/c").read_text() == "one\n"


# -- removing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uid", USERS)
def test_anything_a_command_can_leave_is_removed(make: Make, uid: int | None) -> None:
    place = make(uid)
    place.write({"a": "a\n", "d/b": "b\n"})
    canary = place.root / "canary"
    canary.mkdir()
    (canary / "file").write_text("alive")
    place.run(
        f"""
        rm -r d; mkfifo p; ln -s {canary} out; ln -s {canary}/file out2; mkdir -p x/y/z; touch x/y/z/f 1 2 3; mkdir 4
        ln 1 x/hard; chmod 0 x/y/z x/y x; mkdir -p 5/6/7/8; touch 5/6/7/8/9; chmod 500 5 5/6 5/6/7 5/6/7/8
        touch "$(printf 'new\nline')" "$(printf 'bad\377')" ./-rf
        """
    )
    code = """
import pathlib, sys
from orchestra.worker.removal import discard
root = pathlib.Path(sys.argv[1])
print(discard(root / "upper"), discard(root / "work"), discard(root / "never/was"), discard(root / "upper"))
"""
    assert place.call(code) == "() () () ()"
    assert not place.upper.exists()
    assert not place.work.exists()
    assert (canary / "file").read_text() == "alive"


def test_a_link_in_the_folder_s_place_is_removed_not_followed(tmp_path: Path) -> None:
    (tmp_path / "canary").mkdir()
    (tmp_path / "canary" / "file").touch()
    (tmp_path / "upper").symlink_to(tmp_path / "canary")
    assert discard(tmp_path / "upper") == ()
    assert os.listdir(tmp_path) == ["canary"]
    assert os.listdir(tmp_path / "canary") == ["file"]


@needs_open_checkout
def test_what_cannot_be_removed_is_named(make: Make) -> None:
    """A folder of somebody else inside ours: the user cannot empty it, and is told so."""
    place = make(NOBODY)
    (place.upper / "foreign" / "in").mkdir(parents=True)
    (place.upper / "ours").touch()
    code = """
import pathlib, sys
from orchestra.worker.removal import discard
print(*discard(pathlib.Path(sys.argv[1]) / "upper"))
"""
    assert place.call(code) == "upper/foreign: Permission denied"
    assert os.listdir(place.upper) == ["foreign"]


# -- outputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S2-34", "S2-35", "S2-36", "S2-81")
def test_outputs_are_copied_redacted_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = tmp_path / "out", tmp_path / "artifacts"
    (out / "sub").mkdir(parents=True)
    (out / "report.md").write_text("the key is hunter2-hunter2\n")
    (out / "sub" / "한글.bin").write_bytes(bytes(range(256)))
    os.link(out / "report.md", out / "sub" / "hard")
    os.symlink("/etc/passwd", out / "link")
    os.mkfifo(out / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        monkeypatch.chdir(out)
        sock.bind("sock")  # by its own name: a whole path may be too long for a socket
    (out / "line\nfeed").touch()
    os.truncate(os.open(out / "sparse", os.O_CREAT | os.O_WRONLY), 10 << 30)
    got = collect(Tray.of(str(out)), str(into), disk=Disk(), redactor=Redactor(["hunter2-hunter2"]))
    kept = {str(Path(artifact.path).relative_to(into)): artifact for artifact in got.artifacts}
    assert sorted(kept) == ["report.md", "sub/hard", "sub/한글.bin"]
    assert (into / "report.md").read_text() == "the key is ***REDACTED***\n"
    assert (into / "sub/한글.bin").read_bytes() == bytes(range(256))
    for name, artifact in kept.items():
        said = subprocess.run(["sha256sum", "--", into / name], capture_output=True, text=True, check=True).stdout
        assert artifact.sha256 == f"sha256:{said.split()[0].lstrip(chr(92))}"
        assert artifact.bytes == (into / name).stat().st_size
    assert [skipped.path for skipped in got.skipped] == ["line\\nfeed", "link", "pipe", "sock", "sparse"]


@pytest.mark.whoever
def test_outputs_are_durable_before_they_are_told_of(tmp_path: Path) -> None:
    """D-04: three files are written and synced each, and their names together."""
    out = tmp_path / "out"
    out.mkdir()
    for name in ("a", "b", "c"):
        (out / name).write_text(name)
    for at in range(1, 8):
        with pytest.raises(DiskFull):
            into = str(tmp_path / f"into-{at}")
            collect(Tray.of(str(out)), into, disk=Disk(Chaos(at, "enospc")), redactor=Redactor.blind())
    got = collect(Tray.of(str(out)), str(tmp_path / "into"), disk=Disk(Chaos(8, "enospc")), redactor=Redactor.blind())
    assert len(got.artifacts) == 3


def test_a_folder_that_was_closed_is_looked_at_all_the_same(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=TRAY_MODE)
    tray = Tray.of(str(out))
    (out / "sub").mkdir()
    for folder in (out, out / "sub"):
        (folder / "report.md").write_text("결과\n")
    (out / "sub").chmod(0)
    out.chmod(0)
    got = collect(tray, str(tmp_path / "into"), disk=Disk(), redactor=Redactor.blind())
    assert [artifact.bytes for artifact in got.artifacts] == [7, 7]
    assert not got.untouched


@pytest.mark.whoever
def test_outputs_are_bounded(make: Make, tmp_path: Path) -> None:
    out = make(None).root / "out"
    out.mkdir()
    deep(out, 2_000, "d")
    for number in range(30):
        (out / f"f{number:02}").write_bytes(b"x" * 100)
    room = Room(files=20, total_bytes=1_000, told=5)
    got = collect(Tray.of(str(out)), str(tmp_path / "into"), disk=Disk(), redactor=Redactor.blind(), room=room)
    assert len(got.artifacts) == 10
    assert len(got.skipped) == 6
    assert "more were not kept" in got.skipped[-1].reason
    few = collect(
        Tray.of(str(out)), str(tmp_path / "few"), disk=Disk(), redactor=Redactor.blind(), room=Room(entries=5)
    )
    assert len(few.artifacts) <= 5
    assert any("not looked at" in skipped.reason for skipped in few.skipped)


def _made_and_removed(tray: Path) -> None:
    (tray / "x").touch()
    (tray / "x").unlink()


def _opened_and_closed(tray: Path) -> None:
    tray.chmod(0o755)
    tray.chmod(TRAY_MODE)


_MARKS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda tray: os.listdir(tray),
    "a file": lambda tray: (tray / "x").touch(),
    "an empty folder": lambda tray: (tray / "x").mkdir(),
    "a file that is gone": _made_and_removed,
    "its mode": lambda tray: tray.chmod(0o755),
    "its mode, and back": _opened_and_closed,
    "an attribute": lambda tray: os.setxattr(tray, "user.mark", b"me"),
    "its times": lambda tray: os.utime(tray, ns=(1, 1)),
}


@pytest.mark.parametrize("mark", _MARKS)
def test_a_tray_is_used_again_only_if_nobody_touched_it(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "tray"
    folder.mkdir(mode=TRAY_MODE)
    tray = Tray.of(str(folder))
    time.sleep(0.02)  # the kernel's clock of change times ticks every 10 ms
    _MARKS[mark](folder)
    got = collect(tray, str(tmp_path / "into"), disk=Disk(), redactor=Redactor.blind())
    assert got.untouched == (mark == "nothing")


@pytest.mark.whoever
def test_a_wide_folder_is_read_within_its_bound(tmp_path: Path) -> None:
    """Many names, few bytes: the reading stops at the bound and everything is removed."""
    upper, workspace = tmp_path / "upper", tmp_path / "ws"
    upper.mkdir()
    workspace.mkdir()
    for number in range(20_000):
        os.close(os.open(upper / str(number), os.O_CREAT))
    harvest = changes(upper, workspace, ignored=ignored, limits=LayerBounds(entries=10_000))
    assert harvest.files == ()
    assert discard(upper) == ()
    assert not upper.exists()


def test_an_attribute_is_noticed_though_the_clock_of_change_times_did_not_tick(tmp_path: Path) -> None:
    folder = tmp_path / "tray"
    folder.mkdir(mode=TRAY_MODE)
    os.setxattr(folder, "user.mark", b"me")
    got = collect(Tray.of(str(folder)), str(tmp_path / "into"), disk=Disk(), redactor=Redactor.blind())
    assert not got.untouched


def test_a_file_is_kept_if_its_folder_is_not_too_deep_and_its_name_not_too_long(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "1/2/3").mkdir(parents=True)
    for place in ("1/2/가", "1/2/3/나", "1234567890"):
        (out / place).write_text("x")
    (out / "12345678901").write_text("x")
    room = Room(depth=3, path_bytes=10)
    got = collect(Tray.of(str(out)), str(tmp_path / "into"), disk=Disk(), redactor=Redactor.blind(), room=room)
    assert {Path(one.path).name for one in got.artifacts} == {"가", "1234567890"}
    assert {skipped.path for skipped in got.skipped} == {"1/2/3/나", "12345678901"}
