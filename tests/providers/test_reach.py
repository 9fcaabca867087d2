"""The way to a server: past a proxy or through it, and what is asked before any model is called (GET /models)."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from orchestra.config.sections import ProviderSection
from orchestra.core.model import Destination
from orchestra.providers import anthropic, openai_compat
from orchestra.providers.setup import Choice, ProviderSetup
from tests.support.models import KEY, Line, failure, request
from tests.support.modelserver import ModelServer
from tests.support.project import Project

BARE = "/usr/bin:/bin"  # a PATH without the claude CLI
REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p")


@contextmanager
def answering(head: bytes, more: bytes = b"") -> Iterator[str]:
    """A server that answers everything with the head, then with more and more of the rest until the other leaves."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            try:
                self.request.sendall(head)
                while more:
                    self.request.sendall(more)
            except OSError:
                pass  # the other side has left, as it should

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("models", "told"),
    [(5, "reached; has 작은1, 작은2, 작은3, 작은4, 작은5"), (7, "작은5 and 2 more"), (0, "has no model")],
)
def test_of_a_servers_models_five_are_named_and_the_others_counted(project: Project, models: int, told: str) -> None:
    body = json.dumps({"data": [{"id": f"작은{number}"} for number in range(1, models + 1)]}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    with answering(head % len(body) + body) as url:
        done = project.run("models", "--reach", "--json", env={"OPENAI_BASE_URL": f"{url}/v1", "PATH": BARE})
    states = [json.loads(line)["state"] for line in done.stdout.splitlines()]
    assert [state for state in states if state.endswith(told)], states


@pytest.mark.parametrize("status", [b"200 OK", b"500 No"])
def test_a_list_of_models_without_an_end_is_given_up_by_its_size(project: Project, status: bytes) -> None:
    head = b"HTTP/1.1 " + status + b'\r\ncontent-type: application/json\r\n\r\n{"data": ['
    with answering(head, b'{"id": "another"}, ' * 10_000) as url:
        env = {"OPENAI_BASE_URL": f"{url}/v1", "PATH": BARE}
        done = project.run("models", "--reach", env=env)
    assert done.returncode == 6
    # It was what had come that decided, not the clock: a server that goes on and on fills no memory meanwhile.
    assert "within" not in done.stdout
    assert ("something else than a list of models" if status.startswith(b"200") else "answered 500") in done.stdout


@pytest.mark.parametrize("kind", ["openai_compat", "anthropic"])
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_no_proxy_is_between_us_and_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, host: str
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with ModelServer(host=host) as server, ModelServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert Line(tmp_path / "here", kind, server.url).ask()[0].rawText == "PONG"
        assert len(server.seen) == 1 and proxy.asked == []
        # Any other address does go through it.
        assert Line(tmp_path / "there", kind, "http://models.invalid").ask()[0].rawText == "PONG"
        assert proxy.seen[0].path.startswith("http://models.invalid/v1/")


@pytest.mark.parametrize("scheme", ["http", "https"])  # through a tunnel the proxy answers before the server is asked
@pytest.mark.parametrize("kind", ["openai_compat", "anthropic"])
def test_a_proxy_that_wants_a_login_is_what_to_look_at(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, scheme: str
) -> None:
    with answering(REFUSED) as proxy:
        ways = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": "", "no_proxy": ""}
        for name, value in ways.items():
            monkeypatch.setenv(name, value)
        url = f"{scheme}://models.invalid"
        error = failure(Line(tmp_path / "line", kind, url).ask(request(timeout=5))[0])
        base = {"openai_compat": {"OPENAI_BASE_URL": f"{url}/v1"}, "anthropic": {"ANTHROPIC_BASE_URL": url}}[kind]
        env = {**base, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "PATH": BARE}
        reached = project.run("models", "--reach", "--json", env=env).stdout
    assert (error.code, error.retriable) == ("AUTH", False)
    assert "407" in error.message and error.message.endswith("Check the proxy (HTTP_PROXY, HTTPS_PROXY)")
    [state] = [offer["state"] for offer in map(json.loads, reached.splitlines()) if offer["name"] == kind]
    assert "407" in state and state.endswith("Check the proxy (HTTP_PROXY, HTTPS_PROXY)")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_reach_says_by_its_exit_code_that_who_answers_is_not_there(project: Project, more: tuple[str, ...]) -> None:
    with ModelServer() as server:
        env = {"OPENAI_BASE_URL": f"{server.url}/v1", "PATH": BARE}
        assert project.run("models", "--reach", *more, env=env).returncode == 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody else takes the port, and nobody answers
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        env = {"OPENAI_BASE_URL": url, "PATH": BARE}
        done = project.run("models", "--reach", *more, env=env)
        assert project.run("models", *more, env=env).returncode == 0  # nobody was asked, so nobody is missing
    assert done.returncode == 6
    assert f"not reached: cannot reach {url}/models" in done.stdout


@pytest.mark.parametrize(
    ("url", "variable", "where", "leaves"),
    [
        ("", "", "https://api.openai.com/v1", True),
        ("", "http://localhost:8080/v1/", "http://localhost:8080/v1", False),
        ("http://[::1]:1/v1", "http://example.org/v1", "http://[::1]:1/v1", False),
        ("http://127.9.9.9/v1", "", "http://127.9.9.9/v1", False),
        ("http://192.168.0.2/v1", "", "http://192.168.0.2/v1", True),
        ("http://localhost.example.org/v1", "", "http://localhost.example.org/v1", True),
    ],
)
def test_what_goes_to_this_machine_does_not_leave_it(url: str, variable: str, where: str, leaves: bool) -> None:
    entry = ProviderSection(kind="openai_compat", base_url=url)
    choice = Choice(spec="s", kind="openai_compat", entry=entry)
    setup = ProviderSetup(
        choice=choice,
        environ={"OPENAI_BASE_URL": variable},
        base=Path(),
        trace_header="",
        programs=_none,
        find=_none,
        events=_none,
    )
    assert openai_compat.destination(setup) == Destination(where, leaves=leaves)
    if url:  # a server of the configuration is found in the same way by the other adapter
        assert anthropic.destination(setup) == Destination(where, leaves=leaves)


def _none(*given: object) -> NoReturn:
    raise AssertionError(given)
