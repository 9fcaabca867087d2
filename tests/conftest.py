"""Every test runs without provider variables and with a home of its own: none can reach a real model service."""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.core.collector import relax
from tests.support.ramdisk import folder_in_memory, remove

ROOT = Path(__file__).parents[1]
_SCRUBBED = (
    "ANTHROPIC_",
    "OPENAI_",
    "ORCHESTRA_",
    "CLAUDE_",
    "AWS_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "DEBUG_LLM_REQUESTS",
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The folders of all tests are in memory, where that is possible; the workers get theirs from the first process."""
    if hasattr(config, "workerinput") or config.option.basetemp or config.option.collectonly:
        return
    if folder := folder_in_memory():
        config.option.basetemp = str(folder / "tests")
        _use_for_temporary_files(folder / "tmp")
        config.add_cleanup(lambda: remove(folder))


def _use_for_temporary_files(folder: Path) -> None:
    """Each start of a sandbox makes hundreds of links among them, which takes a disk long."""
    folder.mkdir()
    folder.chmod(0o1777)  # some tests run as another user
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None


# The rewritten tests are kept, also where the machine's variables forbid it: collecting takes a third of the time then.
sys.dont_write_bytecode = False


def pytest_sessionstart(session: pytest.Session) -> None:
    """No garbage collection while tests are collected: what is made then stays. It would take a third of the time.

    All workers collect all tests, in the same order. So that they do not all rewrite all modules, each begins with its
    part of them, if all tests are asked for; the others find those rewritten.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker and session.config.args == session.config.getini("testpaths"):
        number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        for path in sorted(Path(__file__).parent.rglob("test_*.py"))[number::workers]:
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    relax()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files that run once more as an ordinary user come first: at the end one core would wait for the other."""
    items.sort(key=lambda item: "test_it_holds_for_an_ordinary_user_too" not in item.name)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders. `mktemp` reads the names of all before it makes one: with thousands of tests that takes long."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests of a worker: the proof that the sandbox holds is made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session", autouse=True)
def no_real_home(homes: Iterator[Path], cache: Path) -> Iterator[None]:
    """What fixtures of a module or of the session start has no real home and no key either."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(_SCRUBBED):
                patch.delenv(name)
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            patch.delenv(name, raising=False)
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("LANG", "C.UTF-8")
        patch.setenv("HOME", str(_made(homes)))
        yield


@pytest.fixture(autouse=True)
def clean_environment(no_real_home: None, homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(_made(homes)))


def _made(homes: Iterator[Path]) -> Path:
    home = next(homes)
    home.mkdir(mode=0o700)
    return home
