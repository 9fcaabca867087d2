"""The table of files that run by themselves or decide what a check means, against a list; and which files are tests."""

from __future__ import annotations

from collections import Counter

import pytest

from orchestra.core.testfiles import is_test
from orchestra.patch.sensitive import TABLE, entries, is_configuration, kind_of

# Reason, as a reader sees it -> names that must have it, in the folders where they are found.
EXPECTED = {
    "steers a coding agent": """
        CLAUDE.md docs/CLAUDE.local.md AGENTS.md src/AGENTS.md GEMINI.md .cursorrules .windsurfrules .clinerules
        .clinerules/01.md .codex/config.toml .gemini/settings.json .github/copilot-instructions.md .aider.conf.yml
        .github/instructions/py.instructions.md .continue/config.yaml .roo/rules/a.md .roomodes .cursor/rules/a.mdc
        .claude/settings.json .mcp.json .goosehints .junie/guidelines.md .kiro/steering/a.md opencode.json
        """,
    "runs as a git hook": """
        .husky/pre-commit .huskyrc .huskyrc.js lefthook.yml .lefthook.toml lefthook-local.yml .lintstagedrc
        .lintstagedrc.js lint-staged.config.mjs .pre-commit-config.yaml .githooks/pre-push .overcommit.yml
        commitlint.config.js
        """,
    "configures version control, which can run commands named in it": """
        .gitmodules sub/.gitattributes .gitconfig .hg/hgrc .jj/config .jj/repo/config.toml .svn/hooks/x
        """,
    "runs in CI, or decides what is merged": """
        .github/workflows/ci.yml .github/actions/a/index.js .gitlab-ci.yml .circleci/config.yml Jenkinsfile
        azure-pipelines.yml .travis.yml .drone.yml .buildkite/pipeline.yml bitbucket-pipelines.yml action.yml
        .github/CODEOWNERS renovate.json .forgejo/workflows/x.yml Procfile
        """,
    "runs when an editor opens the project": """
        .vscode/tasks.json .idea/workspace.xml .vimrc .nvim.lua .exrc .dir-locals.el .devcontainer/devcontainer.json
        .zed/tasks.json a.code-workspace .gitpod.yml
        """,
    "runs when a shell or another tool starts": """
        .bashrc home/.zshrc .profile .envrc .tmux.conf .gdbinit .irbrc .Rprofile .inputrc .config/fish/config.fish
        """,
    "opens a way into a machine or an account": ".ssh/config .ssh/authorized_keys .netrc .kube/config .aws/config",
    "chooses which version of a tool runs": """
        .mise.toml mise.toml .tool-versions .nvmrc .python-version .ruby-version .node-version .java-version .sdkmanrc
        rust-toolchain rust-toolchain.toml go.work flake.nix shell.nix .bazelversion global.json
        .config/mise/config.toml
        """,
    "configures a package manager, which can run commands named in it": """
        .npmrc .yarnrc.yml .yarn/releases/yarn.cjs .pnp.cjs .pnp.loader.mjs .pnpmfile.cjs .pnpmfile.mjs
        .cargo/config.toml pip.conf .pypirc .mvn/extensions.xml mvnw gradlew gradle/wrapper/gradle-wrapper.properties
        .bundle/config bunfig.toml uv.toml nuget.config
        """,
    "chooses which packages get installed": """
        requirements.txt requirements-dev.txt package-lock.json yarn.lock Cargo.lock poetry.lock Gemfile.lock go.sum
        """,
    "belongs to an installed environment, whose programs run": """
        .venv/bin/python venv/bin/activate node_modules/x/index.js web/node_modules/.bin/jest vendor/bin/phpunit
        .tox/py/bin/x lib/site-packages/a.py pyvenv.cfg
        """,
    "runs when Python starts": "sitecustomize.py x.pth usercustomize.py",
    "decides what the tests mean": """
        conftest.py tests/conftest.py pytest.ini tox.ini noxfile.py jest.config.js jest.config.ts vitest.config.ts
        karma.conf.js .mocharc.json .mocharc playwright.config.ts cypress.config.ts phpunit.xml .rspec
        spec/spec_helper.rb .coveragerc
        """,
    "decides what a check finds": """
        mypy.ini ruff.toml .flake8 .pylintrc .eslintrc .eslintrc.js eslint.config.mjs .golangci.yml .rubocop.yml
        pyrightconfig.json clippy.toml .prettierrc
        """,
    "decides what a build or a check does": """
        Makefile src/Makefile GNUmakefile rules.mk package.json web/package.json pyproject.toml setup.py setup.cfg
        CMakeLists.txt Dockerfile docker/Dockerfile.dev docker-compose.yml compose.yaml Justfile justfile Taskfile.yml
        Rakefile build.gradle build.gradle.kts settings.gradle pom.xml build.rs Cargo.toml go.mod Gemfile a.gemspec
        mix.exs build.sbt meson.build BUILD.bazel a.bzl tsconfig.json webpack.config.js vite.config.ts gulpfile.js
        app.csproj composer.json Package.swift configure check.sh run_tests.py
        """,
    "holds environment secrets": ".env .env.local prod.env",
    "the path concerns security": """
        src/auth/login.py security.py config/secrets.yaml credentials.json lib/token_store.py user-auth.ts a/oauth2.py
        """,
}
NAMES = [(name, reason) for reason, names in EXPECTED.items() for name in names.split()]

# What people and models change every day: a table that asks here would be switched off.
ORDINARY = """
    src/main.py src/app.ts lib/calc.rb README.md docs/guide.md docs/authors.md AUTHORS LICENSE CHANGELOG.md .gitignore
    .dockerignore .editorconfig index.html style.css data/input.csv config/settings.yaml config.yaml environment.py
    src/environment.ts src/makefile_parser.py docs/package.json.md build/notes.txt docker/readme.md scripts/run.sh
    src/claude.py src/agents/planner.py vendor/lib/x.go env/base.py src/hooks/useThing.ts src/workflows/flow.py
    requirements.md docs/requirements.rst src/vscode/x.ts src/test_utils.md latest.py contest.py src/attest.go
    문서/안내.md src/계산.py main.go Main.java src/lib.rs go.html a.toml x.json src/index.js 설정.yaml
"""


def test_the_list_is_long_enough() -> None:
    assert len(NAMES) >= 115  # as many as the review tried


@pytest.mark.parametrize(("name", "reason"), NAMES)
def test_every_name_has_its_reason(name: str, reason: str) -> None:
    for spelled in (name, name.upper(), f"sub/{name}"):
        kind = kind_of(spelled)
        assert kind is not None and kind.reason == reason


@pytest.mark.parametrize("name", ORDINARY.split())
def test_everyday_names_are_not_asked_about(name: str) -> None:
    assert kind_of(name) is None


def test_an_entry_is_in_one_kind_only_and_is_written_as_it_is_compared() -> None:
    found = Counter(name for name, _ in entries())
    assert [name for name, times in found.items() if times > 1] == []
    assert [name for name in found if name != name.lower()] == []
    assert len({kind.reason for kind in TABLE}) == len(TABLE)


TESTS = """
    tests/test_calc.py tests/data/expected.json test/calc.rb src/test/java/CalcTest.java __tests__/calc.js
    src/__tests__/x.snap spec/calc_spec.rb spec/support/x.rb calc_test.go calc_test.py test_calc.py tests.py test.py
    src/calc.test.ts src/calc.spec.js src/calc-spec.ts CalcTest.java CalcTests.cs CalcSpec.scala CalcIT.java HTTPTest.kt
    TestCalc.java calc_test.exs calc_test.dart calc_unittest.cc MyApp.Tests/Calc.cs integration-tests/a.sh a.bats
    login.feature pkg/testdata/in.txt src/tests.rs 시험/test_계산.py tests/계산.txt
"""
OTHERS = """
    src/calc.py latest.py contest.py src/attest.go testimony.rs tester.py docs/spec/overview.md spec/openapi.yaml
    api-spec.yaml load-test.yaml tests/README.md test.md src/inspect.ts protest/x.py src/Testable.java it.py
    spectrum.py specs.md pytest_plugin.py 시험/계산.py testing.md .test
"""


@pytest.mark.parametrize("path", TESTS.split())
def test_tests_are_known_by_their_names(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize("path", OTHERS.split())
def test_other_files_are_no_tests(path: str) -> None:
    assert not is_test(path)


@pytest.mark.parametrize("path", ["pytest/__init__.py", "unittest/__init__.py", "unittest/__main__.py"])
def test_a_package_in_the_place_of_a_runner_decides_what_the_tests_mean(path: str) -> None:
    kind = kind_of(path)
    assert kind is not None
    assert kind.judges


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("orchestra.config.yaml", True),
        ("sub/ORCHESTRA.config.yml", True),
        (".config/orchestra/config.yaml", True),
        ("home/.config/Orchestra/config.yaml", True),
        ("orchestra/config.yaml", False),
        ("config.yaml", False),
        (".config/orchestra/config.yaml/x", False),
    ],
)
def test_a_configuration_of_orchestra_is_known_by_its_path(path: str, is_one: bool) -> None:
    assert is_configuration(path) is is_one
