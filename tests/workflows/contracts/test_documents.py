"""Documents of S3: read strictly, with every mistake named; written so that the same record is read again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestra.core.errors import ContractError
from orchestra.workflows.contracts import records
from orchestra.workflows.contracts.documents import (
    MOST_BYTES,
    BrokenLine,
    Malformed,
    normal_time,
    plain_reply,
    read,
    read_reply,
    write,
)
from orchestra.workflows.contracts.rules import Ids
from orchestra.workflows.contracts.storage import Knowledge
from tests.workflows.contracts.samples import KINDS, sample, text, values


def mistakes(data: Any, name: str, **more: Any) -> list[str]:
    """The fields and requirements of all mistakes in a document."""
    with pytest.raises(Malformed) as caught:
        read(data if isinstance(data, str) else text(data), KINDS[name], name, **more)
    return [f"{one.field}: {one.requirement}" for one in caught.value.mistakes]


def paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The key path of every field of a document."""
    found = []
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        found += [(*at, key)] if isinstance(data, dict) else []
        found += paths(value, (*at, key)) if isinstance(value, dict | list) else []
    return found


def without(data: Any, path: tuple[Any, ...]) -> Any:
    """The document without one field."""
    above = data
    for key in path[:-1]:
        above = above[key]
    del above[path[-1]]
    return data


def field(path: tuple[Any, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


OPTIONAL = {"layer_assignments", "coverage_targets", "note", "failed_tests", "src/main"}
FIELDS = [(name, path) for name in KINDS for path in paths(values(name)) if path[-1] not in OPTIONAL]


@pytest.mark.spec("S3-136", "S3-134", "S3-135", "S3-13", "S3-17", "S3-18")
@pytest.mark.parametrize("name", KINDS)
def test_the_samples_of_the_spec_are_read_unchanged_and_written_again(name: str) -> None:
    record = read(sample(name), KINDS[name], name)
    written = write(record)
    assert read(written, KINDS[name], name) == record
    assert write(read(written, KINDS[name], name)) == written
    assert record.created_at.endswith("Z")
    assert "created_at: '2024-01-15T1" in written  # quoted: no reader takes it for something else


@pytest.mark.spec("S3-137", "S3-21", "S3-22", "S3-23", "S3-24", "S3-25", "S3-28", "S3-29", "S3-32", "S3-33", "S3-56")
@pytest.mark.spec("S3-57", "S3-59", "S3-62", "S3-68", "S3-73", "S3-76", "S3-77", "S3-78", "S3-79", "S3-80", "S3-93")
@pytest.mark.spec("S3-97", "S3-98", "S3-99", "S3-100", "S3-104", "S3-116", "S3-14", "S3-15", "S3-16")
@pytest.mark.parametrize(("name", "path"), FIELDS, ids=lambda value: value if isinstance(value, str) else field(value))
def test_a_document_without_a_required_field_is_refused_by_its_name(name: str, path: tuple[Any, ...]) -> None:
    with pytest.raises(ContractError, match="is missing") as caught:
        read(text(without(values(name), path)), KINDS[name], name)
    assert f"{field(path)}: is missing" in str(caught.value)


@pytest.mark.spec("S3-72", "S3-92", "S3-71", "S3-110")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("design-contract", ("layer_assignments",)),
        ("design-contract", ("boundaries", 1, "note")),
        ("test-contract", ("coverage_targets",)),
        ("test-result", ("failed_tests",)),
    ],
)
def test_what_the_spec_does_not_require_may_be_missing(name: str, path: tuple[Any, ...]) -> None:
    read(text(without(values(name), path)), KINDS[name], name)


def test_all_mistakes_are_named_at_once_each_with_its_line() -> None:
    data = values("task-breakdown")
    del data["assumptions"], data["objective"], data["tasks"][1]["subtasks"]
    data["tasks"][0]["id"] = "task-1"
    data["task_odrer"] = data.pop("task_order")
    with pytest.raises(Malformed) as caught:
        read(text(data), records.TaskBreakdown, "task-breakdown.yaml")
    assert str(caught.value).splitlines() == [
        "task-breakdown.yaml is not valid:",
        "- line 20: task_odrer: unknown field; did you mean task_order? (S3-141)",
        "- line 1: objective: is missing (S3-23)",
        "- line 7: tasks[0].id: it must be T1, T2, …; it is 'task-1' (S3-25)",
        "- line 17: tasks[1].subtasks: is missing (S3-28)",
        "- line 1: assumptions: is missing (S3-32)",
        "- line 1: task_order: is missing (S3-33)",
    ]


@pytest.mark.spec("S3-138", "S3-47", "S3-88", "S3-89", "S3-90", "S3-91", "S3-103", "S3-117", "S3-114", "S3-115")
@pytest.mark.spec("S3-13", "S3-18", "S3-20", "S3-39", "S3-55", "S3-75", "S3-96", "S3-140")
@pytest.mark.parametrize(
    ("name", "path", "good", "requirement"),
    [
        ("design-brief", ("file_refs", 0, "status"), ["exists", "to_create", "to_modify"], "S3-47"),
        ("design-contract", ("file_refs", 0, "status"), ["exists", "to_create", "to_modify"], "S3-47"),
        ("test-contract", ("test_cases", 0, "category"), ["happy_path", "error_case", "edge_case"], "S3-88"),
        ("test-result", ("execution", "result"), ["pass"], "S3-103"),
        ("test-result", ("recommendation", "action"), ["complete"], "S3-117"),
        ("task-breakdown", ("created_by",), ["planner"], "S3-20"),
        ("design-brief", ("created_by",), ["orchestrator"], "S3-39"),
        ("design-contract", ("created_by",), ["architect"], "S3-55"),
        ("test-contract", ("created_by",), ["qa-engineer"], "S3-75"),
        ("test-result", ("created_by",), ["qa-engineer"], "S3-96"),
        ("explored", ("created_by",), ["code-explore"], "S3-18"),
        ("test-result", ("version",), [1], "S3-13"),
    ],
)
def test_a_value_outside_its_table_is_refused(
    name: str, path: tuple[Any, ...], good: list[Any], requirement: str
) -> None:
    data = values(name)
    above: Any = data
    for key in path[:-1]:
        above = above[key]
    for value in good:
        above[path[-1]] = value
        read(text(data), KINDS[name], name)
    for value in ("Pass", "", None, True, 2, ["exists"]):
        above[path[-1]] = value
        assert mistakes(data, name) == [f"{field(path)}: {requirement}"]


@pytest.mark.spec("S3-09", "S3-10", "S3-11", "S3-60", "S3-81")
@pytest.mark.parametrize(
    ("name", "path", "wrong"),
    [
        ("task-breakdown", ("request_id",), ["r1", "R0", "R01", "R1\n", "request 1", "R1/../R2"]),
        ("task-breakdown", ("tasks", 0, "id"), ["t1", "T0", "1", "T1-S1"]),
        ("task-breakdown", ("tasks", 0, "subtasks", 0, "id"), ["S1", "T1_S1", "T1-S0", "T1"]),
        ("design-contract", ("invariants", 0, "id"), ["INV1", "1", "inv-1"]),
        ("test-contract", ("test_cases", 0, "id"), ["TC1", "tc-1", "1"]),
    ],
)
def test_an_id_has_the_form_of_the_spec(name: str, path: tuple[Any, ...], wrong: list[str]) -> None:
    for value in wrong:
        data = values(name)
        above: Any = data
        for key in path[:-1]:
            above = above[key]
        above[path[-1]] = value
        assert mistakes(data, name)[0].startswith(f"{field(path)}: ")


@pytest.mark.spec("S3-46", "S3-93")
@pytest.mark.parametrize("path", ["/etc/passwd", "../x.py", "a/../../b", "C:\\x", "a\\b", "", "a//b", ".git/hooks/x"])
def test_a_path_that_leaves_the_project_is_refused(path: str) -> None:
    data = values("test-contract") | {"test_file_path": path}
    assert mistakes(data, "test-contract") == ["test_file_path: S3-93"]


@pytest.mark.spec("S3-19")
def test_ids_in_the_document_are_those_of_its_path() -> None:
    wrong = mistakes(sample("test-result"), "test-result", ids=Ids("R2", "T1", "T1-S1"))
    assert wrong == ["request_id: S3-19", "subtask_id: S3-19"]
    read(sample("test-result"), records.TestResult, "x", ids=Ids("R1", "T1", "T1-S2"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("404", "it must be a text; it is a number; write it in quotes"),
        ("yes", "it must be a text; it is yes or no; write it in quotes"),
        ("", "it must be a text; it is empty"),
        ("[a]", "it must be a text; it is a list"),
    ],
)
def test_a_text_field_takes_only_text_and_the_cure_is_said(value: str, said: str) -> None:
    with pytest.raises(Malformed) as caught:
        read(sample("test-contract").replace('given: "존재하는 ID"', f"given: {value}"), records.TestContract, "x")
    assert [one.text for one in caught.value.mistakes] == [said]


@pytest.mark.parametrize("value", ["10:30", "2024-01-15", "2024-01-15T10:00:00", "1:2:3"])
def test_what_looks_like_a_time_is_text_where_text_is_wanted(value: str) -> None:
    read_back = read(sample("test-contract").replace('"존재하는 ID"', value), records.TestContract, "x")
    assert read_back.test_cases[0].given == value
    assert read(write(read_back), records.TestContract, "x") == read_back


@pytest.mark.spec("S3-17")
@pytest.mark.parametrize("name", KINDS)
def test_a_document_says_when_it_was_made(name: str) -> None:
    assert mistakes({**values(name), "created_at": "yesterday"}, name) == ["created_at: S3-17"]


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("2024-01-15T10:00:00", "2024-01-15T10:00:00Z"),
        ("2024-01-15 10:00:00", "2024-01-15T10:00:00Z"),
        ("2024-01-15T10:00:00Z", "2024-01-15T10:00:00Z"),
        ("2024-01-15T19:00:00+09:00", "2024-01-15T10:00:00Z"),
        ("2024-01-15t10:00:00.5z", "2024-01-15T10:00:00.500000Z"),
        ("2024-02-30T10:00:00", None),
        ("2024-01-15", None),
        ("10:00", None),
        ("0001-01-01T00:00:00+09:00", None),
        ("yesterday", None),
    ],
)
def test_a_time_without_a_zone_is_utc(written: str, normal: str | None) -> None:
    assert normal_time(written) == normal


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)


@pytest.mark.spec("S3-134")
@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        ("!!python/object/apply:os.system ['true']", "the tag"),
        ("version: !!python/name:os.system", "the tag"),
        ("version: !!binary aGk=", "the tag !!binary"),
        ("version: !mine 1", "the tag !mine"),
        (BOMB, "more than 20,000 values"),
        ("a: &a [*a]", "more than 20,000 values"),
        ("&a {<<: *a}", "more than 20,000 values"),
        ("x: &x {a: 1}\ny: {<<: *x}", "merge key"),
        ("[" * 1000, "no YAML"),
        ("- " * 60 + "x", "nested deeper"),
        ("{[1, 2]: 3}", "keys are texts"),
        ("a: b: c", "no YAML"),
        ("a: 1\n---\nb: 2", "no YAML"),
        ("", "it is empty"),
        ("# only a comment", "it is empty"),
        ("just words", "a mapping"),
        ("- 1\n- 2", "a mapping"),
        ("version: \x00", "no YAML"),
        ("a: " + "x" * MOST_BYTES, "longer than 256 KiB"),
        ("version: 1\nversion: 1", "stands twice"),
    ],
)
def test_hostile_and_broken_yaml_is_refused_with_one_message(hostile: str, said: str) -> None:
    with pytest.raises(Malformed) as caught:
        read(hostile, records.TestResult, "test-result.yaml")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 5000


@pytest.mark.parametrize(("levels", "read_at_all"), [(39, True), (40, False)])  # and the text inside is one more
def test_forty_levels_are_read(levels: int, read_at_all: bool) -> None:
    deep = "- " * levels + "깊다"
    if read_at_all:
        assert str(plain_reply(deep, "reply")).count("[") == levels
        return
    with pytest.raises(Malformed, match="deeper than 40 levels"):
        plain_reply(deep, "reply")


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_a_record_or_a_list_of_mistakes(anything: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_reply(anything, records.TestResult, "x")
    assert caught.value.mistakes


@pytest.mark.spec("S3-135")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(str.strip), max_size=5))
@example(
    ["\x85k", "\u2028b", "\ufeffa", "a\r\nb", " a", "a ", "\tb", "- x", "# x", "'", '"', "가\n나\n", "|", "404", "yes"]
)
def test_every_text_comes_back_unchanged(texts: list[str]) -> None:
    record = read(sample("test-result"), records.TestResult, "x")
    failed = tuple(
        records.FailedTest(id=f"TC-{number + 1}", name=one, reason=one, category="implementation_error")
        for number, one in enumerate(texts)
    )
    execution = records.Execution(command="pytest", timestamp="2024-01-15T11:00:00Z", result="fail")
    advice = records.Recommendation(action="retry_implementation", reason="\n".join(texts))
    record = msgspec.structs.replace(record, failed_tests=failed, execution=execution, recommendation=advice)
    assert read(write(record), records.TestResult, "x") == record


@pytest.mark.parametrize(
    "reply",
    [
        "{}",
        "```yaml\n{}```",
        "```\n{}```\n",
        "계약입니다:\n\n```yaml\n{}```\n\n끝.",
        "~~~yml\n{}~~~",
        "```yaml\n{}",
        "Example:\n```\na: 1\n```\nThe document:\n```yaml\n{}```",
        "---\n{}",
    ],
)
def test_a_reply_is_plain_or_fenced_yaml(reply: str) -> None:
    text = reply.replace("{}", sample("design-contract"))
    assert read_reply(text, records.DesignContract, "x") == read(sample("design-contract"), records.DesignContract, "x")


def test_the_orchestrator_stamps_what_a_model_cannot_know() -> None:
    stamp = {"created_at": "2026-01-01T00:00:00Z"}
    lacking = text(without(values("test-contract"), ("created_at",)))
    for reply in (lacking, sample("test-contract")):
        assert read_reply(reply, records.TestContract, "x", stamp=stamp).created_at == stamp["created_at"]


def test_a_record_that_breaks_its_rules_is_not_written() -> None:
    record = read(sample("task-breakdown"), records.TaskBreakdown, "x")
    with pytest.raises(ContractError, match="T2 is missing"):
        write(msgspec.structs.replace(record, task_order=("T1",)))


def test_texts_of_several_lines_are_written_as_such() -> None:
    knowledge = Knowledge(patterns=("하나\n둘",), decisions=(), pitfalls=(), updated_at="2026-01-01T00:00:00Z")
    assert "  - |-\n    하나\n    둘\n" in write(knowledge)
    assert read(write(knowledge), Knowledge, "x") == knowledge


LINES = {
    "explored": {"project_manifest": 141, "explored_files": 141, "directory_structure": 141},
    "task-breakdown": {
        "tasks[0].name": 26,
        "tasks[0].objective": 27,
        "tasks[0].subtasks[0].name": 30,
        "tasks[0].subtasks[0].description": 31,
    },
    "design-brief": {
        "task_name": 40,
        "objective": 41,
        "subtasks[0].name": 42,
        "completion_criteria": 43,
        "scope_in": 44,
        "scope_out": 45,
        "file_refs[0].entity": 46,
        "file_refs[0].path": 46,
    },
    "design-contract": {
        "task_name": 58,
        "invariants[0].rule": 61,
        "interfaces[0].name": 63,
        "interfaces[0].input.type": 64,
        "interfaces[0].input.fields": 65,
        "interfaces[0].input.fields[0].name": 65,
        "interfaces[0].output.type": 66,
        "interfaces[0].contract": 67,
        "boundaries[0].from": 69,
        "boundaries[0].to": 69,
        "boundaries[0].allowed": 70,
    },
    "test-contract": {
        "test_cases[0].name": 82,
        "test_cases[0].target": 83,
        "test_cases[0].given": 84,
        "test_cases[0].when": 85,
        "test_cases[0].then": 86,
        "test_cases[0].category": 88,
    },
    "test-result": {
        "execution.command": 101,
        "execution.timestamp": 102,
        "summary.total": 105,
        "failed_tests[0].name": 112,
        "failed_tests[0].reason": 113,
        "failed_tests[0].category": 114,
        "recommendation.reason": 118,
    },
}
FAILED = {"id": "TC-2", "name": "존재하지_않는_ID로_조회_실패", "reason": "AError", "category": "implementation_error"}


@pytest.mark.spec("S3-26", "S3-27", "S3-30", "S3-31", "S3-40", "S3-41", "S3-43", "S3-44", "S3-45", "S3-58", "S3-61")
@pytest.mark.spec("S3-63", "S3-64", "S3-65", "S3-66", "S3-67", "S3-69", "S3-70", "S3-82", "S3-83", "S3-84", "S3-85")
@pytest.mark.spec("S3-86", "S3-87", "S3-101", "S3-102", "S3-112", "S3-113", "S3-118", "S3-141")
@pytest.mark.parametrize(("name", "missing"), [(name, missing) for name, lines in LINES.items() for missing in lines])
def test_a_missing_field_is_named_with_its_own_requirement(name: str, missing: str) -> None:
    data = values(name)
    if missing.startswith("failed_tests"):
        data["failed_tests"] = [dict(FAILED)]
    path = tuple(int(key) if key.isdigit() else key for key in missing.replace("[", ".").replace("]", "").split("."))
    found = mistakes(without(data, path), name)
    assert f"{missing}: S3-{LINES[name][missing]}" in found


def test_a_mapping_of_texts_is_no_list_and_a_long_text_is_refused_at_its_first_line() -> None:
    data = values("explored")
    data["directory_structure"] = ["src"]
    assert mistakes(data, "explored") == ["directory_structure: S3-141"]
    with pytest.raises(Malformed, match="line 1: the document: it is longer"):
        read("x" * (MOST_BYTES + 1), records.TestResult, "test-result.yaml")
    with pytest.raises(Malformed, match="a mapping"):
        read("가" * (MOST_BYTES // 3) + "x" * (MOST_BYTES % 3), records.TestResult, "test-result.yaml")


@pytest.mark.parametrize(("many", "end"), [(50, "- line 50: x: wrong (S3-1)"), (51, "- and 1 more")])
def test_fifty_mistakes_are_named_and_the_others_counted(many: int, end: str) -> None:
    said = str(Malformed("a.yaml", [BrokenLine(line, "S3-1", "x", "wrong") for line in range(1, many + 1)]))
    assert said.splitlines()[-1] == end


@pytest.mark.parametrize("more", [0, 1])
def test_values_that_are_repeated_by_a_name_count_each_time(more: int) -> None:
    """20,000 are the most: here 1 for the document, 100 for `a`, 2 and 99 for each name in `b`, 2 and the numbers."""
    a, b = ", ".join("1" * 98), ", ".join(["*a"] * 200)
    document = f"a: &a [{a}]\nb: [{b}]\nc: [{', '.join('1' * (95 + more))}]\n"
    with pytest.raises(Malformed) as caught:
        read(document, records.TestContract, "x")
    assert ("stands for more than 20,000 values" in str(caught.value)) is bool(more)
