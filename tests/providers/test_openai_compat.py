"""The chat adapter: which key it sends to whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.errors import UsageError
from tests.support.models import Line
from tests.support.modelserver import ModelServer, Say


def test_without_a_key_the_vendors_own_server_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="provider openai_compat needs a server or a key: set OPENAI_BASE_URL"):
        Line(tmp_path, "openai_compat", keys={})
    assert Line(tmp_path, "openai_compat", keys={"OPENAI_API_KEY": "k-0123456789"}).capabilities.supportsStreaming


@pytest.mark.parametrize(("keys", "sent"), [({}, None), ({"OPENAI_API_KEY": "k-1"}, "Bearer k-1")])
def test_a_server_of_ones_own_needs_no_key(tmp_path: Path, keys: dict[str, str], sent: str | None) -> None:
    with ModelServer(Say()) as server:
        Line(tmp_path, "openai_compat", server.url, keys=keys).ask()
    assert server.seen[0].headers.get("authorization") == sent
