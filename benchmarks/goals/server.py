"""A real llama.cpp server with the embedded model, OpenAI-compatible, on loopback, with the key in SERVER_KEY.

It prints its address and ends when its standard input does. The tests use it too.
"""

from __future__ import annotations

import os
import sys

from orchestra.core.installed import import_installed
from orchestra.providers.local import ENGINE, find_weights


def main() -> None:
    os.environ["OMP_WAIT_POLICY"] = "passive"  # before the library is loaded: threads that spin slow down everything
    engine = import_installed(ENGINE)
    parameters = engine.CommonParams()
    parameters.model.path = str(find_weights(""))
    parameters.n_ctx, parameters.n_parallel = int(os.environ.get("SERVER_CONTEXT", "8192")), 1
    parameters.verbosity, parameters.offline, parameters.ui = -1, True, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 2
    parameters.api_keys = [os.environ["SERVER_KEY"]]
    server = engine.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
