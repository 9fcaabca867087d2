"""vendor/*/LICENSE -> build/texts.json: the licence whose text each library has."""

import json
import sys
from pathlib import Path

NAMES = {"MIT License": "MIT", "BSD 3-Clause License": "BSD-3-Clause", "Apache License": "Apache-2.0"}
found = {path.parent.name: NAMES[path.read_text().splitlines()[0]] for path in Path("vendor").glob("*/LICENSE")}
Path("build").mkdir(exist_ok=True)
Path("build/texts.json").write_text(json.dumps(found))
sys.stdout.write(f"{len(found)} libraries have a text\n")
