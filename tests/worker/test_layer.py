"""What a real overlay leaves behind is read whole, or refused by name; hostile leftovers hurt nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestra.core.disk import Disk
from orchestra.core.work import Refusal
from orchestra.patch.apply import AppliedFiles, apply, read_images
from orchestra.patch.diff import parse_diff
from orchestra.patch.locate import compute
from orchestra.patch.written import diff_of
from orchestra.worker.kept import prune
from orchestra.worker.layer import Harvest, LayerBounds
from orchestra.worker.removal import discard
from tests.worker.overlay import USERS, Make, by_path, deep, reasons

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
        (LayerBounds(files=3), "for i in 1 2 3 4; do echo x > f$i; done", "more than 3 files"),
        (LayerBounds(total_bytes=10), "echo 1234567890 > f", "more than 10 bytes"),
        (LayerBounds(entries=100), "mkdir d; cd d; seq 200 | xargs touch", "more than 100 files and folders"),
    ],
)
def test_over_a_bound_of_the_whole_nothing_is_taken(make: Make, limits: LayerBounds, script: str, said: str) -> None:
    place = make(None)
    place.run(script)
    harvest = place.harvest(limits=limits)
    assert (harvest.files, harvest.kept) == ((), ())
    assert said in harvest.refused[0].reason


def test_deleting_a_large_folder_is_bounded_too(make: Make) -> None:
    place = make(None)
    place.write({f"d/{n}": "x\n" for n in range(200)})
    place.run("rm -r d")
    assert "more than 100" in place.harvest(limits=LayerBounds(entries=100)).refused[0].reason


def test_many_refusals_are_counted(make: Make) -> None:
    place = make(None)
    place.run("seq 20 | xargs -n1 ln -s /etc/passwd")
    harvest = place.harvest(limits=LayerBounds(refusals=5))
    assert len(harvest.refused) == 6
    assert harvest.refused[-1].reason == "15 more changes were refused"


def test_a_very_deep_tree_is_refused_pruned_and_removed(make: Make) -> None:
    place = make(None)
    deep(place.upper, 3_000)  # no path says it, and no stack of calls holds it
    (place.upper / "build").mkdir()
    deep(place.upper / "build", 1_500)
    (place.upper / "file").write_text("x")
    harvest = place.harvest()
    assert list(by_path(harvest)) == ["file"]
    assert "more than 100 deep" in harvest.refused[0].reason
    assert prune(place.upper, harvest) == ()
    assert os.listdir(place.upper) == ["build"]
    assert discard(place.upper) == ()
    assert not place.upper.exists()


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
        assert not isinstance(parsed, Refusal)
        images = read_images(place.workspace, parsed)
        assert not isinstance(images, Refusal)
        prepared = compute(parsed, images)
        assert not isinstance(prepared, Refusal)
        assert isinstance(apply(place.workspace, prepared, disk=Disk(), scratch=tmp_path / "scratch"), AppliedFiles)
    now = {
        str(file.relative_to(place.workspace)): (file.read_bytes(), bool(file.stat().st_mode & 0o100))
        for file in place.workspace.rglob("*")
        if file.is_file()
    }
    assert now == seen
    assert prune(place.upper, harvest) == ()
    assert os.listdir(place.upper) == []
