"""A scenario's configuration lies over the project's, and can only narrow what the project allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.config.overlay import Overlay, laid_over
from orchestra.config.sections import Config
from orchestra.config.settings import policy_of, read_config
from orchestra.config.yamlfile import Mistake, keys_twice, read_yaml
from orchestra.core.errors import PolicyError

OWN = """\
version: '1.0'
whitelist_tools: [echo, python]
dag: {approval: risk}
budget: {max_usd: 2, max_sec: 60}
sandbox: {env: [LANG], memory_mb: 500}
providers: {mine: {kind: openai_compat, base_url: 'http://localhost:1/v1'}}
"""


def laid(folder: Path, over: str, own: str = OWN) -> Config:
    (folder / "orchestra.config.yaml").write_text(own, encoding="utf-8")
    (folder / "over.yaml").write_text(f"version: '1.0'\n{over}\n", encoding="utf-8")
    loaded = read_config(folder / "orchestra.config.yaml", {})
    _, origins, mistakes = read_yaml(folder / "over.yaml", Config)
    assert mistakes == []
    policy = policy_of(loaded.config, folder, loaded.origins, {})
    return laid_over(loaded, policy, Overlay(folder / "over.yaml", origins), folder, {})[0].config


@pytest.mark.parametrize(
    "over",
    [
        *("budget: {max_usd: 2}", "budget: {max_usd: 1, max_sec: 60}", "dag: {approval: always}"),
        *("whitelist_tools: [echo]", "sandbox: {env: [], memory_mb: 500}", "security: {redact_secrets: true}"),
        *("loop: {max_fix_iterations: 1}", "providers: {mine: {model: 작은}}"),
    ],
)
def test_what_narrows_the_project_is_taken(tmp_path: Path, over: str) -> None:
    own = laid(tmp_path, "")
    made = laid(tmp_path, over)
    assert made != own or "max_usd: 2" in over or "redact" in over
    assert made.budget.max_sec == own.budget.max_sec == 60


@pytest.mark.parametrize(
    ("over", "key"),
    [
        ("budget: {max_usd: 2.5}", "budget.max_usd"),
        ("budget: {max_usd: null}", "budget.max_usd"),
        ("budget: {max_sec: 61}", "budget.max_sec"),
        ("budget: {max_sec: null}", "budget.max_sec"),
        ("dag: {approval: never}", "dag.approval"),
        ("whitelist_tools: [echo, node]", "whitelist_tools"),
        ("sandbox: {env: [LANG, HOME2]}", "sandbox.env"),
        ("security: {redact_secrets: false}", "security.redact_secrets"),
        ("providers: {mine: {base_url: 'http://example.org/v1'}}", "providers.mine.base_url"),
        ("providers: {new: {kind: openai_compat, key_env: MY_KEY}}", "providers.new.key_env"),
        ("sandbox: {memory_mb: 501}", "sandbox.memory_mb"),
    ],
)
def test_what_allows_more_than_the_project_is_refused_by_its_line(tmp_path: Path, over: str, key: str) -> None:
    with pytest.raises(PolicyError) as refused:
        laid(tmp_path, over)
    assert f"over.yaml:2: `{key}" in str(refused.value)


def test_a_budget_may_be_set_where_the_project_has_none(tmp_path: Path) -> None:
    assert laid(tmp_path, "budget: {max_usd: 9}", "version: '1.0'\n").budget.max_usd == 9


def test_a_key_that_stands_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    import yaml

    tree = yaml.compose("a: 1\nb:\n  - {x: 1, y: 2}\n  - x: 1\n    x: 2\na: 3\n", Loader=yaml.SafeLoader)
    assert sorted(keys_twice(tree)) == [
        Mistake(5, "`x` stands twice (first in line 4)"),
        Mistake(6, "`a` stands twice (first in line 1)"),
    ]


def test_the_file_s_own_value_is_told_without_defaults(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("version: '1.0'\nloop: {approval: risk}\n", encoding="utf-8")
    _, origins, _ = read_yaml(tmp_path / "c.yaml", Config)
    assert origins.given("loop", "approval") == origins.below("loop").given("approval") == "risk"
    assert origins.given("loop", "checks") is None and origins.given("dag", "approval") is None
    assert origins.below("loop").given() == {"approval": "risk"}
