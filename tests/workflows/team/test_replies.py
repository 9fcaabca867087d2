"""What an agent's reply may be: files, questions, nothing new. And what is refused."""

from __future__ import annotations

import unicodedata

import pytest

from orchestra.core.errors import ContractError
from orchestra.workflows.team.replies import Question, is_unchanged, read_reply

ONE = ("artifacts/시장.md",)
TWO = ("artifacts/a.md", "artifacts/b.md")
QUESTION = "=== question\nkind: stack\ntext: 어떤 스택?\noptions: Next.js | Django\ndefault: django\nimpact: 모든 것\n"


def test_a_reply_without_blocks_is_the_agents_file() -> None:
    assert read_reply("# 시장\n\n본문\n", ONE, needed=ONE).files == {ONE[0]: "# 시장\n\n본문\n"}


@pytest.mark.parametrize("fence", ["```", "```markdown", "~~~md"])
def test_a_fence_around_the_whole_reply_is_no_part_of_the_file(fence: str) -> None:
    closing = fence.rstrip("markdown")
    assert read_reply(f"{fence}\n# 시장\n{closing}", ONE, needed=ONE).files == {ONE[0]: "# 시장\n"}


def test_a_code_block_at_the_beginning_and_at_the_end_stays() -> None:
    text = "```\na\n```\ntext\n```\nb\n```\n"
    assert read_reply(text, ONE, needed=ONE).files == {ONE[0]: text}


def test_several_files_are_blocks_and_talk_before_them_is_left_out() -> None:
    reply = read_reply("Here you are:\n=== artifacts/a.md\nA\n\n=== b.md\n\nB\n", TWO, needed=TWO)
    assert reply.files == {"artifacts/a.md": "A\n", "artifacts/b.md": "B\n"}
    assert read_reply("=== artifacts/a.md ===\nA\n=== b.md ====\nB\n", TWO, needed=TWO) == reply


def test_a_header_in_a_code_block_is_text_unless_it_names_an_artifact() -> None:
    reply = read_reply("=== artifacts/a.md\nA\n```\n=== b.txt\n```\n=== artifacts/b.md\nB", TWO, needed=TWO)
    assert reply.files["artifacts/a.md"] == "A\n```\n=== b.txt\n```\n"


def test_korean_in_decomposed_form_is_the_same_name_and_the_same_phrase() -> None:
    own = ("artifacts/시장 분석.md",)
    reply = read_reply(unicodedata.normalize("NFD", "=== artifacts/시장 분석.md") + "\n# 시장", own, needed=own)
    assert reply.files == {own[0]: "# 시장\n"} and not reply.out
    assert read_reply(unicodedata.normalize("NFD", "변경 사항 없음"), own).unchanged


def test_a_thought_is_no_part_of_the_file() -> None:
    assert read_reply("<think>hm</think># A", ONE, needed=ONE).files == {ONE[0]: "# A\n"}


@pytest.mark.spec("S4-65")
@pytest.mark.parametrize("name", ["artifacts/other.md", "../x", "/etc/passwd.md", "artifacts/../../x.md", "C:\\x.md"])
def test_a_file_that_is_not_the_agents_is_kept_out_and_the_rest_is_used(name: str) -> None:
    reply = read_reply(f"=== {name}\nbad\n=== {ONE[0]}\ngood\n", ONE, needed=ONE)
    assert reply.files == {ONE[0]: "good\n"}
    assert [one.name for one in reply.out] == [name]
    assert ("leaves" in reply.out[0].why) == (name != "artifacts/other.md")


@pytest.mark.parametrize(
    ("text", "own", "why"),
    [
        ("", ONE, "empty"),
        ("  \n<think>only a thought</think>", ONE, "empty"),
        ("No changes", ONE, "does not exist yet"),
        ("just text", TWO, "head each file"),
        ("=== artifacts/a.md\nA", TWO, "lacks artifacts/b.md"),
        ("=== ../x\nbad", ONE, "only ../x"),
        ("=== artifacts/a.md\n\n=== artifacts/b.md\nB", TWO, "a.md is empty"),
    ],
)
def test_a_first_reply_that_has_not_all_files_is_refused(text: str, own: tuple[str, ...], why: str) -> None:
    with pytest.raises(ContractError, match=why):
        read_reply(text, own, needed=own)


def test_a_revision_may_have_some_files_only() -> None:
    assert read_reply("=== artifacts/a.md\nA", TWO).files == {"artifacts/a.md": "A\n"}


@pytest.mark.spec("S4-52")
@pytest.mark.parametrize(
    "text", ["No changes", "no changes.", "변경 사항 없음", "변경사항 없음", "**No changes**", "`변경 사항 없음`"]
)
def test_the_agreed_phrase_means_that_nothing_changed(text: str) -> None:
    assert is_unchanged(text) and read_reply(text, ONE).unchanged


def test_only_files_that_do_not_exist_yet_must_be_in_a_reply() -> None:
    assert read_reply("=== artifacts/b.md\nB", TWO, needed=TWO[1:]).files == {"artifacts/b.md": "B\n"}
    with pytest.raises(ContractError, match=r"but artifacts/b\.md does not exist yet"):
        read_reply("변경 사항 없음", TWO, needed=TWO[1:])


def test_a_longer_text_with_the_phrase_is_a_file() -> None:
    assert read_reply("No changes were needed in part 2.", ONE).files


@pytest.mark.spec("S4-72", "S4-73", "S4-74")
def test_a_question_has_options_a_default_and_an_impact() -> None:
    [question] = read_reply(QUESTION, ONE, needed=ONE).questions
    assert question == Question("stack", "어떤 스택?", ("Next.js", "Django"), "Django", "모든 것")


@pytest.mark.parametrize("options", ["- A\n- B", "[A, B]", "A, B", "A; B", '"A" | "B"'])
def test_options_may_be_written_in_several_ways(options: str) -> None:
    text = f"=== question\nkind: cost\ntext: x\noptions: {options}\ndefault: B\nimpact: y"
    assert read_reply(text, ONE, needed=ONE).questions[0].options == ("A", "B")


@pytest.mark.spec("S4-75")
@pytest.mark.parametrize("field", ["kind", "text", "options", "default", "impact"])
def test_a_question_that_lacks_something_is_refused(field: str) -> None:
    text = "\n".join(line for line in QUESTION.splitlines() if not line.startswith(field))
    with pytest.raises(ContractError, match=f"lacks `{field}:`"):
        read_reply(text, ONE, needed=ONE)


@pytest.mark.spec("S4-66")
def test_only_important_decisions_may_be_asked() -> None:
    with pytest.raises(ContractError, match="'font' is no important decision"):
        read_reply(QUESTION.replace("stack", "font"), ONE, needed=ONE)


@pytest.mark.spec("S4-67", "S4-68", "S4-69", "S4-70", "S4-71")
@pytest.mark.parametrize("kind", ["stack", "architecture", "scope", "revenue", "cost"])
def test_each_important_kind_may_be_asked(kind: str) -> None:
    assert read_reply(QUESTION.replace("stack", kind, 1), ONE, needed=ONE).questions[0].kind == kind


@pytest.mark.parametrize("wrong", [("django", "Rails"), ("Next.js | Django", "Django")])
def test_the_default_is_one_of_at_least_two_options(wrong: tuple[str, str]) -> None:
    with pytest.raises(ContractError, match="option"):
        read_reply(QUESTION.replace(*wrong), ONE, needed=ONE)
