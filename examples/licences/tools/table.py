"""build/*.json -> LICENSES.md, a table; and the same as licences.csv among the run's artifacts."""

import json
import os
import sys
from pathlib import Path

words = json.loads(Path("words.json").read_text(encoding="utf-8"))  # the task brings it along: inputs.files
declared, texts = (json.loads(Path(f"build/{name}.json").read_text()) for name in ("declared", "texts"))
rows = []
for name in sorted(declared):
    verdict = words["same" if declared[name] == texts[name] else "differs"]
    rows.append((name, declared[name], texts[name], verdict))

head = [f"| {' | '.join(words['head'])} |", "|---|---|---|---|"]
table = "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
Path("LICENSES.md").write_text(table, encoding="utf-8")
csv = Path(os.environ["ORCHESTRA_ARTIFACTS"], "licences.csv")
csv.write_text("".join(f"{','.join(row)}\n" for row in rows), encoding="utf-8")
sys.stdout.write(f"{sum(said != text for _, said, text, _ in rows)} of {len(rows)} differ\n")
