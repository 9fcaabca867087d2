"""A request -> the text that a model reads, the same for every model; and an estimate of its tokens.

Rules
1. Context comes before the prompt, files in the order of their paths: text that repeats from call to call is at
   the beginning, where providers can cache it.
2. A context artifact is quoted between tags that its content cannot close: a file that looks like a prompt, or like
   the end of its own quotation, is still read as a file.
3. The upper limit of a call's tokens is the number of bytes of its text: no tokenizer makes more
   (digits and rare scripts come near). People are shown an estimate.
4. A history comes between the system prompt and the user's prompt with its context.
5. Where a history must be one text, each message is quoted between tags that it cannot close, as context is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import UnsetType

from orchestra.core.model import ChatMessage, ContextArtifact, ProviderRequest
from orchestra.core.text import estimated_tokens

THINK_BYPASS = "<think></think>"  # S5-47: an empty think block, as if the assistant had already thought

BEGINNING = "(the conversation begins)"  # the user's first words, where the assistant spoke first


def context(artifacts: Iterable[ContextArtifact]) -> str:
    """Every context artifact, quoted; empty if there is none."""
    return "\n\n".join(map(_quoted, artifacts))


def user_text(request: ProviderRequest) -> str:
    """Context and prompt in one text, for models that take one."""
    return "\n\n".join(part for part in (context(request.contextArtifacts), request.prompt.user) if part)


def conversation(request: ProviderRequest) -> tuple[ChatMessage, ...]:
    """Everything that the model reads, in order (rule 4); with a history, empty messages are left out."""
    system, last = ChatMessage("system", request.prompt.system), ChatMessage("user", user_text(request))
    if isinstance(request.messages, UnsetType):
        return system, last
    return tuple(message for message in (system, *request.messages, last) if message.content)


def alternating(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """The same conversation for chat templates that refuse any other order: one system message, then turns.

    The first turn is the user's. Neighbours of one role are one message.
    """
    turns: list[ChatMessage] = []
    for message in (one for one in messages if one.role != "system"):
        if not turns and message.role == "assistant":
            turns.append(ChatMessage("user", BEGINNING))
        if turns and turns[-1].role == message.role:
            turns[-1] = ChatMessage(message.role, f"{turns[-1].content}\n\n{message.content}")
        else:
            turns.append(message)
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    return (ChatMessage("system", system), *turns) if system else tuple(turns)


def with_bypass(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """The messages, with an empty think block right after the last one of the user (S5-47, S5-54)."""
    places = [at for at, message in enumerate(messages, start=1) if message.role == "user"]
    at = places[-1] if places else len(messages)
    return (*messages[:at], ChatMessage("assistant", THINK_BYPASS), *messages[at:])


def system_text(request: ProviderRequest) -> str:
    """The system prompt and the system messages of the history, for models that take one system text."""
    said = (message.content for message in request.history if message.role == "system")
    return "\n\n".join(part for part in (request.prompt.system, *said) if part)


def one_text(request: ProviderRequest) -> str:
    """History, context and prompt in one text, for a program that takes one prompt (rule 5)."""
    said = [message for message in request.history if message.role != "system" and message.content]
    if not said:
        return user_text(request)
    told = "\n\n".join(_between("message", f'from="{message.role}"', message.content) for message in said)
    parts = ("# The conversation so far, oldest message first", told, "# What to answer now", user_text(request))
    return "\n\n".join(filter(None, parts))


def token_counts(request: ProviderRequest) -> list[tuple[str, int, int]]:
    """The parts of a prompt: name, tokens (estimated), characters."""
    texts = {"(system)": request.prompt.system, "(user)": request.prompt.user}
    texts |= {f"(message {n}, {m.role})": m.content for n, m in enumerate(request.history, start=1)}
    texts |= {artifact.name: artifact.content for artifact in request.contextArtifacts}
    return [(name, estimated_tokens(text), len(text)) for name, text in texts.items()]


def most_tokens(text: str) -> int:
    """An upper limit of the text's tokens, for any tokenizer (rule 3)."""
    return len(text.encode("utf-8", "replace"))


def _quoted(artifact: ContextArtifact) -> str:
    name = artifact.name.replace('"', "'")
    return _between("file" if artifact.path not in ("", ".") else "note", f'name="{name}"', artifact.content)


def _between(tag: str, attribute: str, content: str) -> str:
    while re.search(rf"</\s*{tag}\s*>", content, re.IGNORECASE):
        tag += "_"  # rule 2
    return f"<{tag} {attribute}>\n{content.rstrip()}\n</{tag}>"
