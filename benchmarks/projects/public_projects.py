"""The table of projects.py: public projects, a commit of each, how a user sets them up, and the checks to be tried.

Rules
1. Nothing of a project is here but its name, hashes, paths and the commands that a user types. The goal is ours.
2. `gold` changes the sources and a test that fails without them; `base` is its parent. Verified by hand: each check is
   red on `base` with `tests` of `gold`, and green with the rest of `gold` (projects.py --by-hand does it again).
3. Only projects that need no compiler and no build: Python sources and plain JavaScript. Scripts of packages that npm
   installs are not run.
4. A wrong setup is one that must never end in a green that proves something; `told` is what the run must print.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GREEN = "green"  # exit code 0, completed, red before, green after
NOT_GREEN = "not green"  # anything else, with `told` in the output
PROVES_NOTHING = "proves nothing"  # completed, and said to prove nothing
OWN = "orchestra's own"  # the environment that orchestra itself runs in is active


@dataclass(frozen=True)
class Try:
    """One run: the check, which environment is active, and how the run must end."""

    check: str
    active: str = ""  # the folder of the active environment; "" is none
    ends: str = GREEN
    told: str = ""  # a text that the run must print or record


@dataclass(frozen=True)
class Setup:
    """What a user types after cloning, and what is tried then."""

    name: str
    commands: tuple[str, ...]
    tries: tuple[Try, ...]


@dataclass(frozen=True)
class Project:
    """A public project and one of its commits."""

    name: str  # the folder of its clone
    published: str
    base: str
    gold: str
    tests: tuple[str, ...]  # the paths of `gold` that are its tests
    setups: tuple[Setup, ...] = field(default=())


VENV = "python3 -m venv .venv"
NPM = "npm ci --ignore-scripts --no-audit --no-fund"

HUMANIZE = Project(
    name="humanize",
    published="python-humanize/humanize",
    base="7574e0cc377d80db0d2756fc2c5e0b8799a6f8b4",
    gold="823ad6096e1e5ba82ea876ce761fc2efebd76157",
    tests=("tests/test_filesize.py",),
    setups=(
        Setup(
            "editable in .venv (src layout)",
            (VENV, ".venv/bin/pip install -q -e '.[tests]'"),
            (
                Try("pytest -q tests/test_filesize.py", active=".venv", told="humanize is your files"),
                Try("pytest -q tests/test_filesize.py", told="humanize is your files"),
                Try("pytest -q tests/test_filesize.py", active=OWN, told="humanize is your files"),
            ),
        ),
        Setup(
            "WRONG: a copy in .venv, not editable",
            (VENV, ".venv/bin/pip install -q '.[tests]'"),
            (
                Try("pytest -q tests/test_filesize.py", active=".venv", ends=NOT_GREEN, told="not your files"),
                Try("python -m pytest -q tests/test_filesize.py", ends=NOT_GREEN, told="not your files"),
            ),
        ),
        Setup(
            "WRONG: a copy in .venv with the change in it already",
            (
                VENV,
                "git stash -q && git checkout -q {gold}",
                ".venv/bin/pip install -q '.[tests]'",
                "git checkout -q {base} && git stash pop -q",
            ),
            (Try("pytest -q tests/test_filesize.py", ends=PROVES_NOTHING, told="not your files"),),
        ),
        Setup(
            "WRONG: no environment",
            (),
            (
                Try("pytest -q tests/test_filesize.py", active=OWN, ends=NOT_GREEN, told="pytest"),
                Try("python3 -m pytest -q tests/test_filesize.py", active=OWN, ends=NOT_GREEN, told="No module named"),
            ),
        ),
    ),
)

BOLTONS = Project(
    name="boltons",
    published="mahmoud/boltons",
    base="673e010d0afabc2f530e8d1f67f0a47c37afa7f4",
    gold="5df26592c29b9561d122640868ba0522cbc1e20d",
    tests=("tests/test_strutils.py",),
    setups=(
        Setup(
            "editable in .venv",
            (VENV, ".venv/bin/pip install -q -e . pytest"),
            (
                Try("pytest -q tests/test_strutils.py", told="boltons is your files"),
                Try(".venv/bin/pytest -q tests/test_strutils.py", told="boltons is your files"),
                Try("pytest -q tests/test_strutils.py", active=".venv", told="boltons is your files"),
            ),
        ),
        Setup(
            "WRONG: editable in .venv, but without pytest",
            (VENV, ".venv/bin/pip install -q -e ."),
            (Try("python -m pytest -q tests/test_strutils.py", active=".venv", ends=NOT_GREEN, told="pip install"),),
        ),
    ),
)

MARSHMALLOW = Project(
    name="marshmallow",
    published="marshmallow-code/marshmallow",
    base="bf33daf069fabd1b2ffb39d2d0cc14fb43644818",
    gold="853b144e128e9150a30a78169b2a68e82e54b47d",
    tests=("tests/test_validate.py",),
    setups=(
        Setup(
            "editable in .venv (src layout, .venv not ignored)",
            (VENV, ".venv/bin/pip install -q -e '.[tests]'"),
            (
                Try("python -m pytest -q tests/test_validate.py", active=".venv", told="marshmallow is your files"),
                Try("python -m pytest -q tests/test_validate.py", told="marshmallow is your files"),
                Try("python3 -m pytest -q tests/test_validate.py", active=OWN, told="marshmallow is your files"),
            ),
        ),
    ),
)

MORE_ITERTOOLS = Project(
    name="more-itertools",
    published="more-itertools/more-itertools",
    base="516f0a80fb7c2c8562dbb5e318fc2a3d44f4171f",
    gold="0e6acdf9b60765ecf9634d6f5c132ac1bebc616b",
    tests=("tests/test_more.py",),
    setups=(
        Setup(
            "editable in .venv, `make test` calls python",
            (VENV, ".venv/bin/pip install -q -e ."),
            (
                Try("make test tests=tests.test_more.ChunkedTests", active=".venv"),
                Try("make test tests=tests.test_more.ChunkedTests"),
            ),
        ),
    ),
)

ARROW = Project(
    name="arrow",
    published="arrow-py/arrow",
    base="7ccbe66122ca53d90acf9c69c37aa95c81a1fe89",
    gold="4c8c44aefc0e5504b9c3cbf0d6adbb0ec4aa4571",
    tests=("tests/test_arrow.py",),
    setups=(
        Setup(
            "not installed; `make test` activates venv and calls pytest",
            ("python3 -m venv venv", "venv/bin/pip install -q -r requirements/requirements-tests.txt"),
            (Try("make test"),),
        ),
        Setup(
            "WRONG: no environment", (), (Try("make test", active=OWN, ends=NOT_GREEN, told="python3 -m venv venv"),)
        ),
    ),
)

KOA = Project(
    name="koa",
    published="koajs/koa",
    base="fecd464ae7be82bd71b275c1faa746dd1c45ef5b",
    gold="55ab9bab044ead4e82c70a30a4f9dc0fc9c1b6df",
    tests=("__tests__/request/host.test.js", "__tests__/request/hostname.test.js"),
    setups=(
        Setup(
            "npm ci",
            (NPM,),
            (
                Try("npm test -- __tests__/request/host.test.js", told="node_modules/.bin"),
                Try("node --test __tests__/request/hostname.test.js", told="node_modules/.bin"),
            ),
        ),
        Setup(
            "WRONG: without npm install",
            (),
            (Try("npm test -- __tests__/request/host.test.js", ends=NOT_GREEN, told="npm install"),),
        ),
    ),
)

COMMANDER = Project(
    name="commander.js",
    published="tj/commander.js",
    base="2e96cd388764064fe271f7f452d0dff780355b42",
    gold="63eed4aa05435575d515311bb5efaf6d88b6be84",
    tests=("tests/options.bool.combo.test.js",),
    setups=(
        Setup(
            "npm ci",
            (NPM,),
            (Try("npx jest tests/options.bool.combo.test.js", told="node_modules/.bin"),),
        ),
        Setup(
            "WRONG: without npm install",
            (),
            (Try("npx jest tests/options.bool.combo.test.js", ends=NOT_GREEN, told="npm install"),),
        ),
    ),
)

PROJECTS = (HUMANIZE, BOLTONS, MARSHMALLOW, MORE_ITERTOOLS, ARROW, KOA, COMMANDER)
