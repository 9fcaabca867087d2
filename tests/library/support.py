"""What the tests of the library share."""

from __future__ import annotations

from orchestra.app import App
from tests.support.project import Project
from tests.support.runs import verify


def conforms(project: Project) -> None:
    """Every run of the project is what the specification says, by `verify`, as its program knows its workflows."""
    known = App(project.path).workflows.get
    for folder in project.runs:
        assert [str(finding) for finding in verify(folder.path, known)] == []


def configured(project: Project, name: str, code: str, *more: str) -> None:
    """Write a workflow's file into the project and name it in the configuration, with consent."""
    (project.path / f"{name}.py").write_text(code, encoding="utf-8")
    project.configure("\n".join((f'workflows: {{{name}: "{name}.py:{name}"}}', *more, "")))
