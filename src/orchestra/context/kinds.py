"""The kind of a file, by its path alone, and how much its words count. Pure.

Rules
1. What is changed is mostly source code: source counts full, tests a third, documents and settings little, and what a
   tool wrote (locks, translations, minified code) next to nothing.
2. A question that speaks of a kind lifts the kind: "the docs of X", "translate Y".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Literal

Kind = Literal["source", "test", "docs", "settings", "generated"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


WEIGHTS: dict[Kind, float] = {"source": 1.0, "test": 0.3, "docs": 0.15, "settings": 0.15, "generated": 0.05}
_LIFTS: dict[Kind, frozenset[str]] = {
    "test": frozenset({"test", "tests", "testing", "pytest", "unittest", "flaky", "테스트"}),
    "docs": frozenset({"docs", "doc", "documentation", "readme", "changelog", "typo", "typos", "tutorial", "문서"}),
    "settings": frozenset({"ci", "yaml", "toml", "dependabot", "dockerfile", "makefile", "설정"}),
    "generated": frozenset({"translation", "translations", "locale", "lockfile", "번역"}),
}
_CODE = _names(
    "py pyi pyx js mjs cjs jsx ts tsx mts cts vue svelte astro go rs java kt kts scala groovy swift c h cc cpp "
    "cxx hpp hh hxx m mm cs fs vb rb php pl pm lua ex exs erl hrl clj cljs cljc hs ml mli dart r jl sh bash zsh "
    "fish ps1 sql proto graphql gql html htm css scss sass less jinja j2 tmpl erb haml vim el zig nim v sol asm s "
    "f90 pas d cr tcl awk coffee elm purs re res hcl tf nix bzl cmake gradle thrift sv"
)
_DOCS = _names("md mdx rst txt adoc asciidoc org tex rtf pod texi 1 5 7 8")
_DATA = _names("po pot mo xlf xliff arb svg csv tsv map snap ambr lock ipynb geojson patch diff log")
_LOCKS = _names(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml go.sum gradle.lockfile packages.lock.json bun.lockb"
)
_TEST_FOLDERS = _names("test tests spec specs __tests__ __mocks__ e2e testdata fixtures fixture testsuite")
_DATA_FOLDERS = _names("locale locales translations i18n l10n vendor third_party __snapshots__ cassettes")
_DOC_FOLDERS = _names("doc docs documentation examples example samples changelog changes release-notes")
_TEST_NAME = re.compile(
    r"test_.*|.*[_.-](?:test|tests|spec|specs)\.[^/]*|conftest\.py|.*(?:Test|Tests|TestCase|IT)\.\w+"
)
_MADE_NAME = re.compile(r".*\.min\.\w+|.*[_.]pb2?(?:_grpc)?\.\w+|.*(?:\.|_|-)gen(?:erated)?\.\w+")
_CODE_NAMES = _names("Makefile Dockerfile Rakefile Gemfile Jenkinsfile BUILD CMakeLists.txt")


@functools.lru_cache(maxsize=100_000)
def kind_of(path: str) -> Kind:
    """The kind of a file."""
    *folders, name = path.split("/")
    above = {folder.lower() for folder in folders}
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if name in _LOCKS or ending in _DATA or above & _DATA_FOLDERS or _MADE_NAME.fullmatch(name):
        return "generated"
    if name in _CODE_NAMES:
        return "settings"
    if above & _TEST_FOLDERS or _TEST_NAME.fullmatch(name):
        return "test"
    if ending in _DOCS or above & _DOC_FOLDERS or name.upper() in ("README", "CHANGELOG", "AUTHORS", "LICENSE"):
        return "docs"
    return "source" if ending in _CODE else "settings"


def is_code(path: str) -> bool:
    """Whether a file's name ends like source code, whatever folder it is in."""
    return path.rpartition(".")[2].lower() in _CODE


def weights(words: Iterable[str]) -> dict[Kind, float]:
    """How much the words of each kind of file count, for a question of these words (rule 2)."""
    said = {word.lower() for word in words}
    lifted = {kind for kind, names in _LIFTS.items() if said & names}
    return {kind: 1.0 if kind in lifted else weight for kind, weight in WEIGHTS.items()}
