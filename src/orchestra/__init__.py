"""orchestra: lets language models work on a goal until your checks pass; you approve each change.

As a library: write a durable workflow as an async function, run it, kill it, resume it (docs/library.md).

    import orchestra

    @orchestra.workflow
    async def essay(ctx: orchestra.Context, topic: str) -> str:
        draft = await ctx.model("writer", f"Write about {topic}.")
        return await ctx.ask("publish", f"Publish? {draft}", options=("yes", "no"))

    print(orchestra.run(essay, topic="rain", provider="scripted:replies.yaml"))

The names below are the library. They are loaded when they are first used, so `import orchestra` is fast.
"""

# Nothing is imported here, not even `typing`. `python -m orchestra` runs this file while the current folder is still on
# Python's path (cli/__init__.py removes it), and a file in that folder may be called `typing.py`.
TYPE_CHECKING = False  # type checkers treat this name as True

__version__ = "0.1.0"

if TYPE_CHECKING:
    from orchestra.core.command import CommandOutcome as CommandOutcome
    from orchestra.core.errors import OrchestraError as OrchestraError
    from orchestra.core.errors import ProviderError as ProviderError
    from orchestra.core.errors import Refused as Refused
    from orchestra.core.errors import StepFailed as StepFailed
    from orchestra.core.looks import Looked as Looked
    from orchestra.core.retry import Retry as Retry
    from orchestra.library import Outcome as Outcome
    from orchestra.library import resume as resume
    from orchestra.library import run as run
    from orchestra.workflows.own.context import Context as Context
    from orchestra.workflows.own.context import PatchOutcome as PatchOutcome
    from orchestra.workflows.own.definition import workflow as workflow

# The module of each name of the library, and its name there.
_PUBLIC = {
    "CommandOutcome": ("orchestra.core.command", "CommandOutcome"),
    "Context": ("orchestra.workflows.own.context", "Context"),
    "Looked": ("orchestra.core.looks", "Looked"),
    "OrchestraError": ("orchestra.core.errors", "OrchestraError"),
    "Outcome": ("orchestra.library", "Outcome"),
    "PatchOutcome": ("orchestra.workflows.own.context", "PatchOutcome"),
    "ProviderError": ("orchestra.core.errors", "ProviderError"),
    "Refused": ("orchestra.core.errors", "Refused"),
    "Retry": ("orchestra.core.retry", "Retry"),
    "StepFailed": ("orchestra.core.errors", "StepFailed"),
    "resume": ("orchestra.library", "resume"),
    "run": ("orchestra.library", "run"),
    "workflow": ("orchestra.workflows.own.definition", "workflow"),
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'orchestra' has no attribute {name!r}; it has {', '.join(__all__)}")
    import importlib

    module, attribute = _PUBLIC[name]
    found = globals()[name] = getattr(importlib.import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
