"""Replies: exactly one of PATCH, ASK, NOOP, or a precise reason why not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.patch.result import Ask, Check, Noop, Patch, Result, Unparsable, parse_result

from .support import canonical, make_diff, patch_of

DIFF = make_diff("f.txt", "a\nb\nc\n", "a\nB\nc\n")
OTHER = make_diff("g.txt", "x\n", "y\n")
HEADER = "<<<AIO_RESULT_START>>>\ntype: PATCH\nsummary: s\n<<<AIO_RESULT_END>>>\n"

# S1 §5.2 to §5.4, letter by letter: there too the hunk counts are wrong, and the check's status is notation (T-1).
SEED_PATCH = """<<<AIO_RESULT_START>>>
type: PATCH
summary: 변경 요약 한 줄
<<<AIO_RESULT_END>>>

[PATCH_BEGIN]
diff --git a/path/to/file b/path/to/file
index 1111111..2222222 100644
--- a/path/to/file
+++ b/path/to/file
@@ -1,1 +1,2 @@
-old
+new
[PATCH_END]

<<<AIO_CHECKS_START>>>
- command: pnpm -w test
  status: pass|fail|not_run
  exitCode: 0
<<<AIO_CHECKS_END>>>
"""
SEED_ASK = """<<<AIO_RESULT_START>>>
type: ASK
question: 사용자의 결정이 필요한 질문 1개
reason: 왜 막혔는지
needed_input:
- 값 A
- 값 B
<<<AIO_RESULT_END>>>
"""
SEED_NOOP = """<<<AIO_RESULT_START>>>
type: NOOP
reason: 이미 목표 상태임
<<<AIO_RESULT_END>>>
"""


def unparsable(text: str) -> Unparsable:
    result = parse_result(text)
    assert isinstance(result, Unparsable), result
    return result


@pytest.mark.spec("S1-79", "S1-83", "S1-84", "S1-85", "S1-86", "S1-93", "S1-96")
def test_the_specifications_own_samples_parse() -> None:
    patch = patch_of(SEED_PATCH)
    assert patch.summary == "변경 요약 한 줄"
    assert patch.diff.startswith("diff --git a/path/to/file b/path/to/file\n")
    assert patch.diff.endswith("-old\n+new\n")
    assert patch.checks == ()  # `pass|fail|not_run` is notation, not a status
    assert parse_result(SEED_ASK) == Ask("사용자의 결정이 필요한 질문 1개", "왜 막혔는지", ("값 A", "값 B"))
    assert parse_result(SEED_NOOP) == Noop("이미 목표 상태임")


@pytest.mark.spec("S1-79")
@pytest.mark.parametrize("sample", [SEED_PATCH, SEED_ASK, SEED_NOOP])
@pytest.mark.parametrize(
    "dress",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: f"```\n{text}```\n",
        lambda text: f"```text\n{text}```\nDone.\n",
        lambda text: f"먼저 설명합니다.\n\n{text}\n이상입니다.",
        lambda text: text.replace(">>>\n", ">>>   \n"),
        lambda text: f"\ufeff{text}",
        lambda text: text.rstrip("\n"),
    ],
    ids=["crlf", "fenced", "fenced text", "prose", "blanks after markers", "bom", "no final newline"],
)
def test_what_models_put_around_a_reply_does_not_matter(sample: str, dress: object) -> None:
    assert callable(dress)
    dressed, bare = parse_result(dress(sample)), parse_result(sample)
    if isinstance(dressed, Patch):
        dressed = msgspec.structs.replace(dressed, diff=dressed.diff.replace("\r", ""))
    assert dressed == bare


@pytest.mark.spec("S1-79")
def test_the_three_types_are_told_apart_by_their_tag_when_stored() -> None:
    for sample in (SEED_PATCH, SEED_ASK, SEED_NOOP, "nothing"):
        result = parse_result(sample)
        stored = msgspec.json.encode(result)
        assert msgspec.json.decode(stored, type=Patch | Ask | Noop | Unparsable) == result
    assert msgspec.json.decode(msgspec.json.encode(parse_result(SEED_ASK)))["type"] == "ASK"


@pytest.mark.spec("S1-80")
def test_patch_is_the_default_type_when_only_the_patch_markers_are_there() -> None:
    assert patch_of(f"[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n") == Patch("", DIFF)


@pytest.mark.spec("S1-81", "S1-93")
def test_an_ask_header_is_no_yaml() -> None:
    header = "type: ASK\nquestion: pick: A or B?\nreason: a: b: c\n  goes on here\nneeded_input: one\n"
    assert parse_result(f"<<<AIO_RESULT_START>>>\n{header}<<<AIO_RESULT_END>>>") == Ask(
        "pick: A or B?", "a: b: c\ngoes on here", ("one",)
    )


@pytest.mark.spec("S1-93")
def test_needed_input_may_be_absent_or_written_in_other_list_styles() -> None:
    head = "<<<AIO_RESULT_START>>>\ntype: ASK\nquestion: q?\n"
    assert parse_result(f"{head}<<<AIO_RESULT_END>>>") == Ask("q?", "", ())
    assert parse_result(f"{head}needed_input: []\n<<<AIO_RESULT_END>>>") == Ask("q?", "", ())
    assert parse_result(f"{head}needed_input:\n  * a\n  * b\n    more\n<<<AIO_RESULT_END>>>") == Ask(
        "q?", "", ("a", "b more")
    )


@pytest.mark.spec("S1-94", "S1-95")
@pytest.mark.parametrize(
    "line", ["", "question:\n", "question:   \n", "question: 진행 불가\n", "question: Cannot proceed.\n"]
)
def test_an_ask_without_a_question_breaks_the_contract(line: str) -> None:
    result = unparsable(f"<<<AIO_RESULT_START>>>\ntype: ASK\n{line}reason: 진행 불가\n<<<AIO_RESULT_END>>>\n")
    assert result.reason == "no_question"
    assert "question:" in result.message


@pytest.mark.spec("S1-82", "S1-96")
def test_a_noop_beside_a_patch_is_not_settled_by_choosing() -> None:
    assert unparsable(f"{SEED_NOOP}[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n").reason == "ambiguous"
    assert unparsable(f"{SEED_ASK}[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n").reason == "ambiguous"


@pytest.mark.spec("S1-99")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SEED_NOOP + SEED_NOOP, "ambiguous"),
        (SEED_NOOP + SEED_ASK, "ambiguous"),
        (SEED_NOOP.replace("NOOP", "DONE"), "invalid_format"),
        (SEED_NOOP.replace("NOOP", "PATCH|ASK|NOOP"), "invalid_format"),
        (SEED_NOOP.replace("NOOP", ""), "invalid_format"),
        (SEED_NOOP.replace("type: NOOP\n", ""), "invalid_format"),
        (SEED_NOOP.replace("type: NOOP\n", "type: NOOP\ntype: ASK\n"), "ambiguous"),
    ],
)
def test_two_headers_or_an_unknown_type_are_none_of_the_three(text: str, reason: str) -> None:
    assert unparsable(text).reason == reason


@pytest.mark.spec("S1-98")
@pytest.mark.parametrize(
    "text", ["", "I cannot do that.", "진행 불가", "```python\nprint(1)\n```", "- a\n+ b\n", "{}", HEADER]
)
def test_a_reply_that_fits_no_type_is_unparsable(text: str) -> None:
    assert unparsable(text).reason == "not_found"


@pytest.mark.spec("S1-85")
@pytest.mark.parametrize(
    "text",
    [
        canonical(DIFF).replace("[PATCH_END]\n", ""),
        f"[PATCH_BEGIN]\n{DIFF}",
        f"{HEADER}```diff\n{DIFF}",
        f"Here:\n```diff\n{DIFF}",
        "<<<AIO_RESULT_START>>>\ntype: PATCH\nsummary: s\n",
        "<<<AIO_RESULT_START>>>\ntype: NOOP\nreason: half a",
        f"<<<AIO_RESULT_START>>>\ntype: PATCH\n[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n",
        DIFF[: DIFF.index("+B")],
    ],
)
def test_what_has_no_end_is_truncated_even_if_its_beginning_would_apply(text: str) -> None:
    assert unparsable(text).reason == "truncated"


@pytest.mark.spec("S1-83", "S1-85")
def test_markers_count_only_as_whole_lines_at_column_0() -> None:
    marks = (
        "<<<AIO_RESULT_START>>>\ntype: NOOP\n<<<AIO_RESULT_END>>>\n[PATCH_BEGIN]\n[PATCH_END]\n<<<AIO_CHECKS_START>>>\n"
    )
    diff = make_diff("prompts.txt", f"top\n{marks}mid\n{marks}end\n", f"top\n{marks}MID\n{marks}{marks}end\n")
    assert patch_of(canonical(diff)).diff == diff
    assert parse_result(f"say `[PATCH_BEGIN]` first\n see [PATCH_END]\n{SEED_NOOP}") == Noop("이미 목표 상태임")


def test_an_end_marker_inside_a_hunk_that_lost_its_leading_blank_does_not_end_the_patch() -> None:
    diff = make_diff("p.txt", "a\n[PATCH_END]\nb\n", "a\n[PATCH_END]\nB\n").replace("\n [PATCH_END]", "\n[PATCH_END]")
    assert patch_of(canonical(diff)).diff == diff
    fenced = make_diff("p.md", "a\n```\nb\n", "a\n```\nB\n").replace("\n ```", "\n```")
    assert patch_of(f"```diff\n{fenced}```\nas asked\n```\nmore\n```\n").diff == fenced


@pytest.mark.spec("S1-89", "S1-97")
@pytest.mark.parametrize(
    "form", ["{markers}", "{header}```diff\n{plain}```\n", "### PATCH\n{plain}", "Sure:\n\n{plain}"]
)
def test_a_diff_without_git_lines_is_taken_in_the_normal_form_and_says_so(form: str) -> None:
    plain = DIFF.split("\n", 1)[1]
    patch = patch_of(form.format(markers=canonical(plain), header=HEADER, plain=plain))
    assert patch.diff.rstrip("\n") == DIFF.rstrip("\n")
    assert patch.repaired == ("the `diff --git` line was missing and was added: f.txt",)


@pytest.mark.spec("S1-89")
def test_a_diff_that_names_no_file_is_refused() -> None:
    assert patch_of(canonical(DIFF)).repaired == ()
    for nameless in ("-a\n+b\n", "@@ -1 +1 @@\n-a\n+b\n", "--- a/f\n@@ -1 +1 @@\n-a\n+b\n"):
        for text in (canonical(nameless), f"```diff\n{nameless}```"):
            result = unparsable(text)
            assert result.reason == "invalid_format"
            assert "diff --git" in result.message
    assert unparsable(canonical("")).reason == "invalid_format"


@pytest.mark.spec("S1-97")
@pytest.mark.parametrize(
    "text",
    [
        f"Sure:\n```diff\n{DIFF}```\nDone.\n",
        f"Sure:\n~~~~diff\n{DIFF}~~~~\n",
        f"Sure:\n```patch\n{DIFF}```\n",
        f"Sure:\n```diff a note\n{DIFF}```\n",
        f"### PATCH\n{DIFF}",
        f"### PATCH\n```\n{DIFF}```\n### CHECKS\n- none\n",
        f"### patch:\n\n{DIFF}\n### NOTES\n- a\n- b\n",
        f"I changed one line.\n\n{DIFF}",
        f"```diff\n{DIFF}```\n```patch\n{DIFF}```\n",
        f"[PATCH_BEGIN]\n```diff\n{DIFF}```\n[PATCH_END]\n",
        f"```diff\n[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n```\n",
    ],
)
def test_without_markers_the_diff_is_found_where_models_put_it(text: str) -> None:
    assert patch_of(text).diff.strip() == DIFF.strip()


@pytest.mark.spec("S1-97", "S1-99")
def test_several_diffs_are_joined_only_if_they_touch_different_files() -> None:
    assert patch_of(f"```diff\n{DIFF}```\nand\n```diff\n{OTHER}```\n").diff == DIFF + OTHER
    assert patch_of(f"[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n[PATCH_BEGIN]\n{OTHER}[PATCH_END]\n").diff == DIFF + OTHER
    assert unparsable(f"```diff\n{DIFF}```\nor\n```diff\n{DIFF}```\n").reason == "ambiguous"
    assert unparsable(f"[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n[PATCH_BEGIN]\n{DIFF}[PATCH_END]\n").reason == "ambiguous"


@pytest.mark.spec("S1-87", "S1-88")
def test_checks_are_read_as_claims() -> None:
    block = (
        "<<<AIO_CHECKS_START>>>\n- command: pytest -k 'a: b'\n  status: fail\n  exitCode: 1\n"
        "- command: make\n  status: not_run\n<<<AIO_CHECKS_END>>>\n"
    )
    assert patch_of(canonical(DIFF) + block).checks == (Check("pytest -k 'a: b'", "fail", 1), Check("make", "not_run"))


@pytest.mark.spec("S1-86", "S1-88")
@pytest.mark.parametrize(
    "block",
    [
        "<<<AIO_CHECKS_START>>>\n- command: x\n  status: passed\n<<<AIO_CHECKS_END>>>\n",
        "<<<AIO_CHECKS_START>>>\n- command: x\n  status: pass|fail|not_run\n  exitCode: 0\n<<<AIO_CHECKS_END>>>\n",
        "<<<AIO_CHECKS_START>>>\nI ran nothing.\n",
        "<<<AIO_CHECKS_START>>>\n{]\n<<<AIO_CHECKS_END>>>\n",
        "<<<AIO_CHECKS_END>>>\n",
        "<<<AIO_CHECKS_START>>>\n- status: pass\n<<<AIO_CHECKS_END>>>\n",
    ],
)
def test_a_broken_checks_block_never_costs_the_patch(block: str) -> None:
    assert patch_of(canonical(DIFF) + block) == Patch("what it does", DIFF)


def test_an_unreadable_exit_code_is_no_exit_code() -> None:
    block = "<<<AIO_CHECKS_START>>>\n- command: x\n  status: pass\n  exitCode: zero\n<<<AIO_CHECKS_END>>>\n"
    assert patch_of(canonical(DIFF) + block).checks == (Check("x", "pass"),)


@pytest.mark.spec("S1-92")
def test_long_explanation_around_the_diff_changes_nothing() -> None:
    talk = "설명입니다. I thought about `diff --git` for long.\n" * 300
    assert patch_of(talk + canonical(DIFF) + talk).diff == DIFF


PIECES = st.sampled_from(
    [
        *HEADER.split("\n"),
        *SEED_PATCH.split("\n"),
        *SEED_ASK.split("\n"),
        "```diff",
        "```",
        "### PATCH",
        "",
        " ",
        "+",
        "-",
        "\\",
        "@@",
        "\r",
    ]
)
REPLIES = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=30).map("\n".join))


@pytest.mark.spec("S1-79", "S1-98", "S1-124")
@settings(max_examples=300, deadline=None)
@given(REPLIES)
def test_any_text_gives_one_typed_result_and_always_the_same(text: str) -> None:
    result: Result = parse_result(text)
    assert isinstance(result, Patch | Ask | Noop | Unparsable)
    assert parse_result(text) == result


def test_prose_below_the_closing_marker_that_looks_like_a_diff_is_prose() -> None:
    diff = make_diff("f", "a\n", "b\n")
    for prose in ("- it says b now", "+ that is all", " indented"):
        assert patch_of(f"{canonical(diff)}{prose}\n").diff == diff
        assert patch_of(canonical(diff).rstrip("\n") + f"\n{prose}").diff == diff
