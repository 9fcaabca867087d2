"""Coverage of coverage_targets: by coverage.py's report, or unknown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orchestra.core.errors import ContractError
from orchestra.workflows.contracts import testcommand as commands
from orchestra.workflows.contracts.coverage import Covered, covered, measuring

PART = {"executed_lines": [2, 3], "missing_lines": [5, 6, 9], "summary": {}}
REPORT = msgspec.json.encode(
    {
        "meta": {"version": "7.6.0"},
        "files": {
            "src/shop/service.py": {
                "executed_lines": [1, 2, 3],
                "missing_lines": [5, 6, 9],
                "functions": {"AService.getData": PART, "가격": {"executed_lines": [1], "missing_lines": []}, "": PART},
                "classes": {"AService": PART},
            },
            "src/shop/other.py": {"executed_lines": [1], "missing_lines": [], "functions": {"가격": PART}},
        },
    }
)


@pytest.mark.spec("S3-92")
def test_each_target_has_its_share_or_is_unknown() -> None:
    targets = ["AService.getData", "shop.service.AService", "src/shop/other.py", "가격", "AController.handleGet"]
    found = covered(targets, REPORT)
    assert [one.percent for one in found] == [40.0, 40.0, 100.0, None, None]
    assert [one.said for one in found] == [
        "AService.getData: 40 % of src/shop/service.py::AService.getData, not run: 5-6, 9",
        "shop.service.AService: 40 % of src/shop/service.py::AService, not run: 5-6, 9",
        "src/shop/other.py: 100 % of src/shop/other.py",
        "가격: unknown (src/shop/service.py::가격 and src/shop/other.py::가격 both have it)",
        "AController.handleGet: unknown (no measured file has it)",
    ]


def test_without_a_report_everything_is_unknown() -> None:
    assert covered(["a"], None) == (Covered("a", why="the runner measures none"),)


@pytest.mark.parametrize("report", [b"", b"{}", b"[1]", b'{"files": 3}', b"[" * 100_000])
def test_a_broken_report_is_refused(report: bytes) -> None:
    with pytest.raises(ContractError, match="not coverage"):
        covered(["a"], report)


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("pytest -q", "python", "pytest -q"),
        ("python3 -m pytest", "python3", "pytest"),
        ("uv run pytest a", "uv run python", "pytest a"),
        ("python -m unittest -v", "python", "unittest -v"),
    ],
)
def test_coverage_is_measured_around_the_test_command(line: str, before: str, after: str) -> None:
    found = measuring(commands.given(tuple(line.split()), "--check"), "/out/c.json")
    assert found is not None
    at = found.index("-c")
    assert (" ".join(found[:at]), found[at + 2], " ".join(found[at + 3 :])) == (before, "/out/c.json", after)


def test_coverage_of_other_runners_is_not_measured() -> None:
    assert measuring(commands.given(("npm", "test"), "--check"), "/out/c.json") is None


@pytest.mark.spec("S3-92")
@pytest.mark.parametrize(
    ("options", "first", "percent"),
    [
        ("-n 2", "pass", 66.7),  # in processes of their own, as the project has it
        ("", "sys.settrace(None)", None),  # the tests take the tracer away
    ],
    ids=["in-parallel", "without-the-tracer"],
)
def test_no_line_that_was_run_is_called_not_run(
    options: str, first: str, percent: float | None, tmp_path: Path
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = -p no:cacheprovider {options}\n")
    (tmp_path / "adder.py").write_text("def add(a, b):\n    if a == 7:\n        return 0\n    return a + b\n")
    test = f"import sys\nimport adder\ndef test_tc_1():\n    {first}\n    assert adder.add(1, 2) == 3\n"
    (tmp_path / "test_adder.py").write_text(test)
    argv = measuring(commands.given((sys.executable, "-m", "pytest", "-q"), "--check"), "c.json")
    assert argv is not None
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = tmp_path / "c.json"
    found = covered(["add"], report.read_bytes() if report.exists() else None)
    assert found[0].percent == percent
