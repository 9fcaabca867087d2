"""Files that run by themselves, guard something or decide what a check means: a change is shown to a person by name.

Rules (MS-6.9, G1-2)
1. TABLE is the whole list. An entry is the name of a file, in whatever folder. With `/` at its end it is the name of a
   folder, and everything in it counts. With `/` inside it is the last two names. `*` stands for anything.
2. A name is in one kind only, and a kind has one reason.
3. Case is ignored, because an unneeded question costs less than a missed file.
4. A kind with `judges` decides what checks mean: a change to such a file changes the meaning of "passed".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from orchestra.core.names import folded, is_name
from orchestra.core.text import words


class Kind(Struct, frozen=True):
    """A kind of file, and why a person should see a change to it."""

    reason: str
    names: str
    judges: bool = False


TABLE = (
    Kind(
        "steers a coding agent",
        """
        agents.md agents.override.md agent.md claude.md claude.local.md gemini.md qwen.md codex.md warp.md crush.md
        .cursorrules .cursorignore .windsurfrules .clinerules .roorules .roomodes .goosehints .rules .aider*
        .mcp.json opencode.json opencode.jsonc .github/copilot-instructions.md .github/instructions/
        .github/prompts/ .github/chatmodes/ .github/agents/ .claude/ .cursor/ .codex/ .gemini/ .windsurf/
        .clinerules/ .roo/ .kilocode/ .continue/ .aider/ .junie/ .kiro/ .trae/ .amazonq/ .augment/ .qwen/ .opencode/
        .crush/ .goose/ .agents/ .agent/
        """,
    ),
    Kind(
        "runs as a git hook",
        """
        .husky/ .huskyrc* .githooks/ .git-hooks/ lefthook.* lefthook-local.* .lefthook.* .lefthook-local.*
        .lefthook/ .lintstagedrc* lint-staged.config.* .pre-commit-config.yaml .pre-commit-config.yml
        .pre-commit-hooks.yaml .overcommit.yml .commitlintrc* commitlint.config.* .simple-git-hooks.*
        simple-git-hooks.* captainhook.json grumphp.yml
        """,
    ),
    Kind(
        "configures version control, which can run commands named in it",
        """
        .gitmodules .gitattributes .gitconfig .lfsconfig .hgrc .hgsub .hg/ .jj/ .svn/ .bzr/ .sl/
        """,
    ),
    Kind(
        "runs in CI, or decides what is merged",
        """
        .github/workflows/ .github/actions/ .github/dependabot.yml .github/dependabot.yaml .github/settings.yml
        .gitea/workflows/ .forgejo/workflows/ action.yml action.yaml codeowners .gitlab-ci.yml .gitlab/ .gitlab-ci/
        .circleci/ .buildkite/ .woodpecker/ .woodpecker.yml .drone.yml .travis.yml appveyor.yml .appveyor.yml
        azure-pipelines.yml .azure-pipelines/ bitbucket-pipelines.yml jenkinsfile jenkinsfile.* .jenkins/
        .cirrus.yml .cirrus.star cloudbuild.yaml cloudbuild.yml .semaphore/ .teamcity/ .tekton/ .builds/ .build.yml
        .ci/ codemagic.yaml bitrise.yml buildspec.yml wercker.yml renovate.json renovate.json5 .renovaterc*
        .mergify.yml .kodiak.toml procfile netlify.toml vercel.json fly.toml render.yaml serverless.yml
        """,
    ),
    Kind(
        "runs when an editor opens the project",
        """
        .vscode/ .idea/ .run/ .vim/ .nvim/ .zed/ .fleet/ .helix/ .vs/ .devcontainer/ .devcontainer.json .gitpod.yml
        .gitpod.dockerfile .replit replit.nix .vimrc .gvimrc .exrc .nvimrc .nvim.lua .lvimrc .emacs .emacs.d/
        .dir-locals.el .dir-locals-2.el *.code-workspace *.sublime-project .sublime-project
        """,
    ),
    Kind(
        "runs when a shell or another tool starts",
        """
        .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
        .zlogout .kshrc .cshrc .tcshrc .login .inputrc .envrc .direnvrc .autoenv .autoenv.zsh .tmux.conf .screenrc
        .xinitrc .xprofile .xsessionrc .pam_environment .gdbinit .lldbinit .irbrc .pryrc .rprofile .renviron .ghci
        .psqlrc .sqliterc .curlrc .wgetrc crontab .config/fish/ .config/autostart/ .config/systemd/
        """,
    ),
    Kind(
        "opens a way into a machine or an account",
        """
        .ssh/ .gnupg/ .aws/ .azure/ .kube/ .docker/ authorized_keys known_hosts ssh_config sshd_config sudoers
        .netrc _netrc .pgpass .htpasswd .htaccess
        """,
    ),
    Kind(
        "chooses which version of a tool runs",
        """
        .mise.toml mise.toml .mise.local.toml mise.local.toml .mise/ .config/mise/ .config/mise.toml .tool-versions
        .nvmrc .node-version .python-version .python-versions .ruby-version .ruby-gemset .java-version .go-version
        .php-version .perl-version .swift-version .terraform-version .sdkmanrc .jabbarc rust-toolchain
        rust-toolchain.toml go.work .bazelversion .bazeliskrc .asdfrc .prototools global.json devbox.json devenv.nix
        devenv.yaml flake.nix flake.lock shell.nix default.nix .flox/ .pkgx.yaml pixi.toml
        """,
    ),
    Kind(
        "configures a package manager, which can run commands named in it",
        """
        .npmrc .yarnrc .yarnrc.yml .yarn/ .pnp.* .pnpmfile.* pnpm-workspace.yaml bunfig.toml .bunfig.toml .bowerrc
        .cargo/ .cargo-config pip.conf pip.ini .pypirc .condarc .mambarc uv.toml poetry.toml pdm.toml .pdm.toml
        .pdm-python .gemrc .bundle/ nuget.config .m2/ .mvn/ mvnw mvnw.cmd gradlew gradlew.bat gradle/wrapper/
        gradle.properties init.gradle .sbtopts .jvmopts .opam/ .conan/ .composer/
        """,
    ),
    Kind(
        "chooses which packages get installed",
        """
        requirements*.txt requirements*.in constraints.txt pipfile pipfile.lock poetry.lock pdm.lock uv.lock
        pylock.toml environment.yml environment.yaml package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml
        bun.lock deno.lock cargo.lock go.sum gemfile.lock composer.lock mix.lock podfile.lock packages.lock.json
        gradle.lockfile pubspec.lock vcpkg.json
        """,
    ),
    Kind(
        "belongs to an installed environment, whose programs run",
        """
        .venv/ venv/ .virtualenv/ virtualenv/ pyvenv.cfg .tox/ .nox/ __pypackages__/ site-packages/ node_modules/
        bower_components/ vendor/bin/ vendor/bundle/ .eggs/ .direnv/ .pixi/ .conda/ .gradle/
        """,
        judges=True,
    ),
    Kind("runs when Python starts", "sitecustomize.py usercustomize.py *.pth *.egg-link", judges=True),
    Kind(
        "decides what the tests mean",
        """
        conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml pytest.py unittest.py tox.ini tox.toml noxfile.py
        pytest/__init__.py pytest/__main__.py _pytest/__init__.py unittest/__init__.py unittest/__main__.py
        .coveragerc nose2.cfg behave.ini .behaverc
        jest.config.* jest.setup.* jest.preset.* vitest.config.* vitest.workspace.* vitest.setup.* karma.conf.*
        .mocharc* mocha.opts .nycrc* .c8rc* .taprc ava.config.* jasmine.json wdio.conf.* cypress.json cypress.config.*
        playwright.config.* playwright-ct.config.* nightwatch.conf.* protractor.conf.* .testcaferc* stryker.conf.*
        phpunit.xml phpunit.xml.dist phpunit.dist.xml behat.yml codeception.yml
        .rspec spec_helper.rb rails_helper.rb test_helper.rb test_helper.exs cucumber.yml
        testng.xml junit-platform.properties .config/nextest.toml ctestconfig.cmake *.xctestplan
        """,
        judges=True,
    ),
    Kind(
        "decides what a check finds",
        """
        mypy.ini .mypy.ini ruff.toml .ruff.toml .flake8 .pylintrc pylintrc .bandit pyrightconfig.json .pycodestyle
        .golangci.* .eslintrc* eslint.config.* .eslintignore .stylelintrc* stylelint.config.* .prettierrc*
        prettier.config.* biome.json biome.jsonc tslint.json .oxlintrc.json .rubocop.yml .standard.yml .clang-tidy
        .clang-format clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml deny.toml phpstan.neon* psalm.xml*
        .php-cs-fixer* .swiftlint.yml detekt.yml .scalafmt.conf checkstyle.xml .credo.exs
        """,
        judges=True,
    ),
    Kind(
        "decides what a build or a check does",
        """
        makefile makefile.* gnumakefile *.mk *.mak justfile .justfile *.just taskfile.yml taskfile.yaml rakefile *.rake
        check.sh checks.sh check.py ci.sh lint.sh run-tests* run_tests* runtests*
        pyproject.toml setup.py setup.cfg hatch.toml hatch_build.py fabfile.py dodo.py pavement.py conanfile.py
        package.json deno.json deno.jsonc tsconfig.json tsconfig.*.json nx.json turbo.json lerna.json rush.json
        angular.json gulpfile.* gruntfile.* webpack.config.* vite.config.* rollup.config.* esbuild.config.*
        tsup.config.* babel.config.* .babelrc* .swcrc next.config.* nuxt.config.* svelte.config.* astro.config.*
        metro.config.* postcss.config.* tailwind.config.*
        cmakelists.txt *.cmake cmakepresets.json meson.build meson_options.txt meson.options sconstruct sconscript
        wscript configure configure.ac configure.in configure.py autogen.sh xmake.lua premake5.lua
        build build.bazel module.bazel workspace workspace.bazel *.bzl .bazelrc buck .buckconfig pants.toml
        dockerfile dockerfile.* *.dockerfile containerfile docker-compose.* docker-bake.* compose.yml compose.yaml
        vagrantfile tiltfile earthfile skaffold.yaml
        build.gradle build.gradle.kts settings.gradle settings.gradle.kts pom.xml build.xml ivy.xml build.sbt build.sc
        build.mill project/build.properties project/plugins.sbt deps.edn project.clj bb.edn
        *.csproj *.fsproj *.vbproj *.vcxproj *.sln *.targets directory.build.* build.cake
        cargo.toml build.rs go.mod build.zig build.zig.zon package.swift podfile gemfile *.gemspec composer.json
        mix.exs rebar.config stack.yaml cabal.project *.cabal *.nimble dune dune-project pubspec.yaml
        """,
        judges=True,
    ),
    Kind("holds environment secrets", ".env .env.* *.env"),
)
_CONCERNS_SECURITY = Kind("the path concerns security", "")
_SECURITY = re.compile(
    r"(?:o?auth(?!or(?:s|ed|ship)?(?:$|[^a-z]))|security|secret|credential|token|permission)"
)  # G1-2


def kind_of(path: str) -> Kind | None:
    """The kind of sensitive file that the path is; None if it is not sensitive."""
    parts = folded(path).split("/")
    index = _index()
    for name in (parts[-1], "/".join(parts[-2:])):
        if kind := index.files.get(name):
            return kind
    for folder in (*parts[:-1], *map("/".join, pairwise(parts[:-1]))):
        if kind := index.folders.get(folder):
            return kind
    for begin, end, kind in index.patterns:
        if parts[-1].startswith(begin) and parts[-1].endswith(end) and len(parts[-1]) >= len(begin) + len(end):
            return kind
    if any(_SECURITY.match(word) for word in words(path)):
        return _CONCERNS_SECURITY
    return None


def is_configuration(path: str) -> bool:
    """Whether the path is a configuration of orchestra, a project's or a user's, in any spelling."""
    parts = path.split("/")
    if any(is_name(parts[-1], f"orchestra.config.{end}") for end in ("yaml", "yml")):
        return True
    own = (".config", "orchestra", "config.yaml")
    return len(parts) >= len(own) and all(map(is_name, parts[-len(own) :], own))


# -- reading the table ------------------------------------------------------------------------------------------------


class _Index(Struct, frozen=True):
    files: dict[str, Kind]
    folders: dict[str, Kind]
    patterns: tuple[tuple[str, str, Kind], ...]  # how a name begins, how it ends


def entries() -> Iterator[tuple[str, Kind]]:
    """Every entry of the table."""
    return ((name, kind) for kind in TABLE for name in kind.names.split())


@functools.cache
def _index() -> _Index:
    files: dict[str, Kind] = {}
    folders: dict[str, Kind] = {}
    patterns: list[tuple[str, str, Kind]] = []
    for name, kind in entries():
        begin, star, end = name.partition("*")
        if star:
            patterns.append((begin, end, kind))
        elif name.endswith("/"):
            folders[name[:-1]] = kind
        else:
            files[name] = kind
    return _Index(files, folders, tuple(patterns))
