"""Damaged patches made from real commits: how many are applied right, asked about, refused, applied wrong; by kind.

    .venv/bin/python benchmarks/damaged_patches.py [REPOSITORY [SAMPLES]]

REPOSITORY is any git repository, bare or not; this one if none is named. The kinds are in tests/patch/damage.py, the
limits in tests/patch/test_damage.py. It measures no time, so `make bench` leaves it out.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.patch.damage import cases, samples, table  # noqa: E402 - the path above leads there


def main(repository: str = str(ROOT), count: str = "100") -> None:
    found = samples(Path(repository), count=int(count), seed="damage")
    print(table(list(cases(found, seed="damage"))))


if __name__ == "__main__":
    main(*sys.argv[1:3])
