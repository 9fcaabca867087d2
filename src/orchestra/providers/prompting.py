"""From a request to the text a model reads, the same for every model; and how many tokens that is, roughly.

Rules
1. Context comes before the prompt, files in the order of their paths: what stays the same from call to call stands at
   the beginning, where providers can remember it.
2. A context artifact is quoted between tags that its own content cannot close: a file that looks like a prompt, or like
   the end of its own quotation, stays a file.
3. What a call may cost is bounded before it is made by as many tokens as the text has bytes: no tokenizer makes more
   (digits and rare scripts come near). What people are shown is an estimate that is about right.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestra.core.model import ContextArtifact, ProviderRequest

THINK_BYPASS = "<think></think>"  # S5-47: an assistant that has thought already


def context(artifacts: Iterable[ContextArtifact]) -> str:
    """Every context artifact, quoted; empty if there is none."""
    return "\n\n".join(map(_quoted, artifacts))


def user_text(request: ProviderRequest) -> str:
    """Context and prompt in one text, for models that take one."""
    return "\n\n".join(part for part in (context(request.contextArtifacts), request.prompt.user) if part)


def estimated_tokens(text: str) -> int:
    """About how many: four characters a token, or three bytes where a character has more (Hangul)."""
    return max(-(-len(text) // 4), -(-len(text.encode("utf-8", "replace")) // 3))


def most_tokens(text: str) -> int:
    """No fewer than any tokenizer makes of it (rule 3)."""
    return len(text.encode("utf-8", "replace"))


def _quoted(artifact: ContextArtifact) -> str:
    tag = "file" if artifact.path not in ("", ".") else "note"
    while f"</{tag}>" in artifact.content:
        tag += "_"  # rule 2
    name = artifact.name.replace('"', "'")
    return f'<{tag} name="{name}">\n{artifact.content.rstrip()}\n</{tag}>'
