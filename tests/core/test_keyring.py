"""Where a user's key is, which keys are used, and which are refused with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.disk import Disk
from orchestra.core.errors import UsageError
from orchestra.core.keyring import Keyring, state_folder, within_project


def keyring(tmp_path: Path, **environ: str) -> Keyring:
    return Keyring({"HOME": str(tmp_path / "home"), **environ}, tmp_path / "p", Disk())


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/orchestra"),
        ({"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/orchestra"),  # a relative one depends on where one is
        ({"HOME": "/h"}, "/h/.local/state/orchestra"),
    ],
)
def test_the_folder_of_a_users_data(environ: dict[str, str], folder: str) -> None:
    assert state_folder(environ) == Path(folder)


def test_a_key_is_made_by_writing_only_and_stays_for_its_owner_alone(tmp_path: Path) -> None:
    ring = keyring(tmp_path)
    assert ring.known is None and not ring.file.exists()  # reading makes none
    made = ring.seal
    assert ring.file.stat().st_mode & 0o777 == 0o600 and ring.file.parent.stat().st_mode & 0o077 == 0
    assert len(ring.file.read_text().strip()) == 64
    assert [one.name for one in ring.file.parent.iterdir()] == ["key"]
    again = keyring(tmp_path)
    assert again.seal is again.seal and again.known is not None and made is not None
    assert keyring(tmp_path, ORCHESTRA_KEY_FILE=str(ring.file)).known is not None


@pytest.mark.parametrize(("length", "used"), [(15, False), (16, True)])
def test_a_key_that_can_be_guessed_is_refused(tmp_path: Path, length: int, used: bool) -> None:
    file = tmp_path / "key"
    file.write_text("k" * length + "\n")
    file.chmod(0o600)
    rings = [keyring(tmp_path, ORCHESTRA_KEY="k" * length), keyring(tmp_path, ORCHESTRA_KEY_FILE=str(file))]
    for ring in rings:
        if used:
            assert ring.known is not None
            continue
        with pytest.raises(UsageError, match=r"fewer than 16 characters|is damaged \(too short\)"):
            ring.known  # noqa: B018


def test_a_key_file_that_others_can_read_or_that_is_not_there_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("k" * 64)
    for mode in (0o640, 0o604):
        file.chmod(mode)
        with pytest.raises(UsageError, match="chmod 600"):
            keyring(tmp_path, ORCHESTRA_KEY_FILE=str(file)).known  # noqa: B018
    with pytest.raises(UsageError, match="ORCHESTRA_KEY_FILE: there is no .*; copy the key there"):  # noqa: RUF043
        keyring(tmp_path, ORCHESTRA_KEY_FILE=str(tmp_path / "none")).known  # noqa: B018


def test_a_key_in_the_project_is_neither_read_nor_made(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "key").write_text("k" * 64)
    (project / "key").chmod(0o600)
    (tmp_path / "link").symlink_to(project)
    for path in (project / "key", tmp_path / "link" / "key"):
        ring = keyring(tmp_path, ORCHESTRA_KEY_FILE=str(path))
        assert within_project(path, str(project)) and ring.known is None
        with pytest.raises(UsageError, match="lies in the project"):
            ring.seal  # noqa: B018
    assert within_project(project, str(project)) and not within_project(tmp_path / "p2" / "key", str(project))
