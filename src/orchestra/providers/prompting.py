"""A request -> the text that a model reads, the same for every model; and an estimate of its tokens.

Rules
1. Context comes before the prompt, files in the order of their paths: text that repeats from call to call is at
   the beginning, where providers can cache it.
2. A context artifact is quoted between tags that its content cannot close: a file that looks like a prompt, or like
   the end of its own quotation, is still read as a file.
3. The upper limit of a call's tokens is the number of bytes of its text: no tokenizer makes more
   (digits and rare scripts come near). People are shown an estimate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from orchestra.core.model import ContextArtifact, ProviderRequest
from orchestra.core.text import estimated_tokens

THINK_BYPASS = "<think></think>"  # S5-47: an empty think block, as if the assistant had already thought


def context(artifacts: Iterable[ContextArtifact]) -> str:
    """Every context artifact, quoted; empty if there is none."""
    return "\n\n".join(map(_quoted, artifacts))


def user_text(request: ProviderRequest) -> str:
    """Context and prompt in one text, for models that take one."""
    return "\n\n".join(part for part in (context(request.contextArtifacts), request.prompt.user) if part)


def token_counts(request: ProviderRequest) -> list[tuple[str, int, int]]:
    """The parts of a prompt: name, tokens (estimated), characters."""
    texts = {"(system)": request.prompt.system, "(user)": request.prompt.user}
    texts |= {artifact.name: artifact.content for artifact in request.contextArtifacts}
    return [(name, estimated_tokens(text), len(text)) for name, text in texts.items()]


def most_tokens(text: str) -> int:
    """An upper limit of the text's tokens, for any tokenizer (rule 3)."""
    return len(text.encode("utf-8", "replace"))


def _quoted(artifact: ContextArtifact) -> str:
    tag = "file" if artifact.path not in ("", ".") else "note"
    while re.search(rf"</\s*{tag}\s*>", artifact.content, re.IGNORECASE):
        tag += "_"  # rule 2
    name = artifact.name.replace('"', "'")
    return f'<{tag} name="{name}">\n{artifact.content.rstrip()}\n</{tag}>'
