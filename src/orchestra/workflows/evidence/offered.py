"""What a model is offered at one moment of the loop: the schema of its reply, for a provider that keeps to one. Pure.

A small model does what a grammar leaves it. So the schemas depend on the loop's state, and a reply that follows one is
a step that makes sense there.

Rules
1. A schema is narrower than the protocol. Replies are judged by the protocol alone (protocol.py): a model without a
   grammar may finalize at once or ask first.
2. A first turn gathers evidence; an answer without any needs an earlier turn. The worker first runs a command. Until
   one has printed something, a command is a look that was not made before: a reading program, names of files that
   exist, words of the goal. Later ones may be any line that policy/words.py reads, of programs that the worker has.
3. A question comes after a command, at most QUESTIONS in a run, and is followed by another action.
4. After a repeated command, and with the last step, the worker hands over. If main then continues, the worker looks or
   asks before it hands over again. Main may continue only while steps are left.
5. Main first chooses lines of the evidence, word for word, then decides: a small model that has to decide first goes on
   for ever. Where no command printed a line it chooses none. The reader gets the lines with the answer.
6. Every text has a maximal length, and fields that the loop does not use are left out: a small model fills every field
   and may never end a text. The longest reply of a worker has less than WORKER_TOKENS.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from orchestra.context.words import asked_for, terms_of, words_in
from orchestra.core.command import MOST_STAGES
from orchestra.core.secretfiles import secret_by_name
from orchestra.workflows.evidence.memory import tag_of
from orchestra.workflows.evidence.shapes import Job, Loop, has_repeated, steps_left

ActionName = Literal["call_tool", "ask", "finalize"]
QUESTIONS = 2
LINE, REASON = 150, 80  # characters of a worker's command line and of its reason (rule 6)
_SENTENCE, _SHORT = 160, 80
_ANSWER = (200, 2_000)  # characters of an answer, at least and at most; between them, a sixteenth of the context
_MOST_NAMES = 24
_MOST_WORDS = 8
_QUOTED = (24, 120)  # lines of the evidence that main may quote; characters of one
_NAME = re.compile(r"(?!-)[\w./+@=,-]{1,80}")  # a path that needs no quotes
_NO_EVIDENCE = ("echo",)  # prints its own words
_WORD = re.compile(r"\w{2}")
_ARGUMENT = "([A-Za-z0-9_./,:=@%+^À-힣-]{1,80}|'[ -&(-~À-힣]{1,80}')"  # no escapes: engines know different ones


# -- what is recorded at the start, so that a later version offers a waiting run the same ------------------------------


def likeliest(paths: Iterable[str], goal: str, *, most: int) -> tuple[str, ...]:
    """The files that a goal may be about, by their names: those that share words with it, then those near the root.

    They have `most` characters at most.
    """
    wanted = {term for term, _ in asked_for(goal)}

    def order(path: str) -> tuple[int, int, str]:
        terms = {term for word in words_in(path) for term in terms_of(word)}
        return -len(wanted & terms), path.count("/"), path

    found: list[str] = []
    for path in sorted((one for one in paths if _NAME.fullmatch(one) and not secret_by_name(one)), key=order):
        most -= len(path) + 2
        if most < 0 or len(found) == _MOST_NAMES:
            break
        found.append(path)
    return tuple(found)


def search_words(goal: str) -> tuple[str, ...]:
    """The words of a goal to search for. Of a Korean word, its beginning: particles are written together with it."""
    words = (word if word.isascii() else word[:2] for _, word in asked_for(goal))
    return tuple(dict.fromkeys(words))[:_MOST_WORDS]


# -- what is offered --------------------------------------------------------------------------------------------------


def actions(job: Job, loop: Loop) -> tuple[ActionName, ...]:
    """The actions that make sense for the worker now (rules 2 to 4)."""
    if not _readers(job):
        return ("finalize",)
    if not loop.evidence:
        return ("call_tool",)
    if steps_left(job, loop) <= 1:
        return ("finalize",)
    last = tag_of(loop.messages[-1])
    if has_repeated(loop) and last != "MAIN_GUIDANCE":
        return ("finalize",)
    if not any(one.exitCodes for one in loop.evidence):
        return ("call_tool",)  # no command has run yet
    may_ask = last != "WORKER_ASK_ANSWER" and len(loop.answers) < QUESTIONS
    asking: tuple[ActionName, ...] = ("ask",) if may_ask else ()
    ending: tuple[ActionName, ...] = () if last == "MAIN_GUIDANCE" else ("finalize",)
    return ("call_tool", *asking, *ending)


def planning_schema(job: Job, loop: Loop) -> dict[str, Any]:
    """Main's planning. In the first turn of a conversation there is nothing yet to judge or to report (rule 2)."""
    ways = ["collect_evidence", *(["main_decision", "final_report"] if job.memory else [])]
    sentence = _text(_SENTENCE)
    return _object({"next": {"enum": ways}, "reason": sentence}, evidence_goals=_texts(2), guidance=sentence)


def action_schema(job: Job, loop: Loop) -> dict[str, Any]:
    """The worker's next action."""
    command = {**_text(LINE), "pattern": line_pattern(job, loop)}
    shapes = {
        "call_tool": _object(
            {
                "action": {"const": "call_tool"},
                "tool": {"const": "shell"},
                "args": _object({"cmd": command}),
                "reason": _text(REASON),
            }
        ),
        "ask": _object({"action": {"const": "ask"}, "question": _text(_SENTENCE)}),
        "finalize": _object({"action": {"const": "finalize"}}),
    }
    return _one_of([shapes[name] for name in actions(job, loop)])


def decision_schema(job: Job, loop: Loop) -> dict[str, Any]:
    """Main's decision (rules 4 and 5)."""
    least, most = _ANSWER
    answer = {"answer": _text(min(max(job.contextTokens // 16, least), most))}
    lines = quotable(loop)
    some = {"items": {"enum": list(lines)}, "minItems": 1, "maxItems": 2}
    none = {"items": _text(_SHORT), "maxItems": 0}
    chosen = {"summary_evidence": {"type": "array", **(some if lines else none)}}
    finalize = _object({**chosen, "decision": {"const": "finalize"}, **answer})
    more = _object(
        {**chosen, "decision": {"const": "continue"}, "guidance": _text(_SENTENCE)},
        needed_evidence=_texts(2),
        forced_synthesis_enable_think={"type": "boolean"},
    )
    return _one_of([finalize, more] if steps_left(job, loop) else [finalize])


def quotable(loop: Loop) -> dict[str, int]:
    """The lines of output that an answer may stand on, each with its step (rule 5): of commands that succeeded."""
    most, longest = _QUOTED
    lines: dict[str, int] = {}
    for one in loop.evidence:
        for line in map(str.strip, one.text.splitlines() if one.exitCode == 0 else ()):
            if _WORD.search(line) and not line.startswith("[") and len(line) <= longest and len(lines) < most:
                lines.setdefault(line, one.step)
    return lines


def line_pattern(job: Job, loop: Loop) -> str:
    """The command lines that the worker may write now, as a regular expression (rule 2)."""
    looks = [] if any(one.lines[1] for one in loop.evidence) else _looks(job, loop)
    return f"^({'|'.join(looks)})$" if looks else _any_line(_readers(job))


def _readers(job: Job) -> list[str]:
    return [name for name in job.programs if name not in _NO_EVIDENCE]


def _any_line(programs: Sequence[str]) -> str:
    stage = f"({_either(programs)})( {_ARGUMENT}){{0,8}}( 2>(&1|/dev/null))?"
    return f"^{stage}( [|] {stage}){{0,{MOST_STAGES - 1}}}$"


def _looks(job: Job, loop: Loop) -> list[str]:
    """Patterns of looks that were not made before. Their output is short, and what they name exists."""
    made = {word.strip("'") for one in loop.evidence for word in one.command.split()}
    files = _either(name for name in job.names if name not in made)
    words = _either(word for word in job.words if word not in made)
    folders = _either(sorted({folder for name in job.names if (folder := posixpath.dirname(name))} - made))
    places = "|".join(filter(None, ("[.]", folders, files)))
    short = " [|] head -n [12]0" if "head" in job.programs else ""
    patterns = {
        "head": f"head -n [1-4]0 ({files})" if files else "",
        "wc": f"wc -l ({files})" if files else "",
        "grep": f"grep -rnI '({words})' ({places}){short}" if words else "",
    }
    looks = [pattern for program, pattern in patterns.items() if pattern and program in job.programs]
    return looks or (["ls"] if "ls" in job.programs and "ls" not in made else [])


def _either(texts: Iterable[str]) -> str:
    """A pattern of exactly these texts, without escapes: engines differ in those that they know."""
    return "|".join(re.sub(r"[^\w/@=,% -]", lambda found: f"[{found[0]}]", text) for text in texts)


# -- schemas ----------------------------------------------------------------------------------------------------------


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


def _texts(most: int) -> dict[str, Any]:
    return {"type": "array", "items": _text(_SHORT), "maxItems": most}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _one_of(shapes: list[dict[str, Any]]) -> dict[str, Any]:
    return shapes[0] if len(shapes) == 1 else {"oneOf": shapes}
