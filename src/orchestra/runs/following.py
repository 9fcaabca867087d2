"""What a run that goes on from an ended one is told of it, as notes for its models. Secrets are masked."""

from __future__ import annotations

from orchestra.core.reading import RunCreated, RunEnded, outcome_of
from orchestra.core.redact import Redactor
from orchestra.core.work import EARLIER, Note
from orchestra.patch.undo import Net
from orchestra.runs.find import RunSummary
from orchestra.runs.patches import net_patch
from orchestra.workflows.headline import VERDICTS

_MOST_CHANGE, _MOST_VERDICT = 40_000, 2_000  # characters


def told(run: RunSummary, net: Net, redactor: Redactor) -> tuple[Note, ...]:
    """The goal of a run, its net change, and its verdicts; of each what is short enough for a prompt."""
    name, created = f"{EARLIER}, {run.folder.id}", RunCreated.of(run.created)
    diff = net_patch(run.folder, net, redactor).diff
    change = diff if len(diff) <= _MOST_CHANGE else f"{diff[:_MOST_CHANGE]}\n… the rest of it is left out\n"
    left = f"\nAlso changed, and changed again since: {', '.join(net.unknown)}\n" if net.unknown else ""
    notes = [
        Note(f"{name}: its goal", f"{created.goal}\n"),
        Note(f"{name}: what it changed, already in the files", f"{change or 'nothing'}{left}\n"),
        Note(f"{name}: how it ended", "".join(f"- {line}\n" for line in _verdicts(run))),
    ]
    return tuple(notes)


def _verdicts(run: RunSummary) -> list[str]:
    """The verdict of each iteration, what people rejected and why, and the end."""
    told: list[str] = []
    for event in run.events:
        if event.type in VERDICTS:
            told.append(f"iteration {event.iteration} {VERDICTS[event.type]}: {outcome_of(event).grounds}")
        elif event.type == "APPROVAL_REJECTED":
            told.append(f"a person rejected the patch of iteration {event.iteration}: {outcome_of(event).reason}")
    ended = RunEnded.of(run.events[-1])
    why = ended.message or ended.reason
    told.append(f"{run.fold.state.status}{f': {why}' if why else ''}")
    return [line[:_MOST_VERDICT] for line in told]
