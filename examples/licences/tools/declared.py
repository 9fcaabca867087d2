"""vendor/*/package.json -> build/declared.json: the licence each library says it has."""

import json
import sys
from pathlib import Path

found = {path.parent.name: json.loads(path.read_text())["license"] for path in Path("vendor").glob("*/package.json")}
Path("build").mkdir(exist_ok=True)
Path("build/declared.json").write_text(json.dumps(found))
sys.stdout.write(f"{len(found)} libraries say a licence\n")
