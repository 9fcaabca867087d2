"""Every test runs without provider variables and with a home of its own: none can reach a real model service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ramdisk import folder_in_memory, remove

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
        config.add_cleanup(lambda: remove(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files that run once more as an ordinary user come first: at the end one core would wait for the other."""
    items.sort(key=lambda item: "test_it_holds_for_an_ordinary_user_too" not in item.name)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests of a worker: the proof that the sandbox holds is made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def clean_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(_SCRUBBED):
            monkeypatch.delenv(name)
    home: Path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("LANG", "C.UTF-8")
    yield
