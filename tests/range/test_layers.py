"""Each layer earns its place: without it, a case of the range turns red."""

from __future__ import annotations

import pytest

from tests.range.test_range import drive

# layer, category, the cases that must notice
NOTICED = {
    "seccomp": ("kernel", ["keyring", "userfaultfd", "io_uring", "a 32-bit call"]),
    "network namespace": ("sockets", ["tcp", "udp", "abstract", "an interface besides lo"]),
    "ipc namespace": ("kernel", ["shared memory outside"]),
    "uts namespace": ("environment", ["the host's name"]),
    "private /tmp": ("reads", ["the host's /tmp"]),
    "minimal root": ("reads", ["a file beside the workspace", "the user's home"]),
    "overlay": ("harmless", ["a planted hard link", "a hook"]),
    "seccomp and no nested namespaces": ("namespaces", ["user", "user and mount"]),
    "limits of a process": ("processes", ["core files"]),
    "watchdog": ("bombs", ["memory of many processes"]),
}


@pytest.mark.parametrize("layer", NOTICED)
def test_a_missing_layer_is_noticed(layer: str) -> None:
    category, names = NOTICED[layer]
    found = drive(category, "as we are", "--without", layer, "--only", *names)
    fine = {"harmless": ("refused", "done"), "bombs": ("ended",)}.get(category, ("refused",))
    red = [name for name, said in found["said"].items() if not said.startswith(fine)]
    assert "the launch" not in red, found["said"]
    assert red or found["outside"], f"nothing noticed: {found}"


@pytest.mark.parametrize("layer", NOTICED)
def test_the_same_cases_are_green_with_it(layer: str) -> None:
    category, names = NOTICED[layer]
    found = drive(category, "as we are", "--only", *names)
    fine = {"harmless": ("refused", "done"), "bombs": ("ended",)}.get(category, ("refused",))
    assert [name for name, said in found["said"].items() if not said.startswith(fine)] == []
    assert found["outside"] == {}
