"""Terms of texts: identifiers are split, endings are cut, Hangul is split from Latin."""

from __future__ import annotations

import pytest

from orchestra.context.words import asked_for, counted, stem, terms_of


def terms(text: str) -> set[str]:
    return {term for term, _ in asked_for(text)}


@pytest.mark.parametrize("word", ["getOrCreate", "get_or_create", "GetOrCreate", "GET_OR_CREATE"])
def test_an_identifier_is_the_same_in_every_way_of_writing(word: str) -> None:
    assert terms_of(word)[0] == "getorcreate"
    assert {stem("get"), stem("or"), stem("create")} <= set(terms_of(word))


def test_a_word_with_a_hyphen_in_a_goal_is_an_identifier() -> None:
    assert "customelement" in terms("fix the custom-element")


@pytest.mark.parametrize(
    ("one", "other"),
    [("parsing", "parse"), ("parser", "parse"), ("queries", "query"), ("mapped", "mapping"), ("files", "file")],
)
def test_endings_are_cut(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize("particle", ["를", "에서", "은", "의"])
def test_a_korean_particle_is_no_part_of_an_identifier(particle: str) -> None:
    assert terms("get_or_create") <= terms(f"get_or_create{particle} 고쳐라")


def test_korean_words_are_found_with_other_endings() -> None:
    assert set(counted("# 순위를 계산")) & terms("순위가 틀리다")


def test_words_of_every_text_are_no_terms() -> None:
    assert terms("please fix the bug in the code when it does not work, 코드를 고쳐라") == set()


def test_numbers_of_issues_are_no_terms() -> None:
    assert terms("close #123, fixes: #9") == set()


def test_a_very_long_word_is_no_obstacle() -> None:
    # A pattern that looks at each letter again for every letter before it would need more than this test may take.
    for piece in ("a", "a1", "aB", "7a"):  # letters of data in a reply, a patch or an output
        assert list(asked_for(piece * 200_000)) == []
    assert "d_model" in [word for _, word in asked_for("3d-model")]


def test_a_stop_word_that_is_written_like_code_is_a_term() -> None:
    assert dict(asked_for("fix `get` and add() of the new cache")) == {"get": "get", "add": "add", "cach": "cache"}


def test_a_term_of_an_identifier_stands_for_the_identifier_or_for_one_of_its_words() -> None:
    assert dict(asked_for("bytes2Human")) == {"bytes2human": "bytes2Human", "byt": "bytes", "human": "human"}
    assert set(dict(asked_for("정렬한다")).values()) == {"정렬한다"}


def test_a_single_letter_is_no_term() -> None:
    assert (terms_of("x"), terms_of("_x_"), terms_of("xy")) == ((), (), ("xy",))


@pytest.mark.parametrize(
    ("word", "cut"),
    [
        *(("key", "key"), ("copy", "copy"), ("query", "quer"), ("queries", "quer"), ("class", "class")),
        *(("used", "used"), ("maps", "map"), ("mapped", "map"), ("falling", "fall"), ("adding", "add")),
        *(("ies", "ies"), ("playing", "play"), ("studying", "stud"), ("replayed", "repla")),
        *(("lly", "lly"), ("ally", "ally"), ("badly", "badl"), ("egged", "egg"), ("begged", "beg"), ("types", "typ")),
    ],
)
def test_how_much_of_a_word_is_cut(word: str, cut: str) -> None:
    assert stem(word) == cut


def test_the_longest_identifier_and_the_most_terms() -> None:
    assert terms_of("a" * 80) == ("a" * 80,) and terms_of("a" * 81) == ()
    assert dict(asked_for("xy z")) == {"xy": "xy"}
    assert terms_of("한글") == ("한글",) and terms_of("한글로") == ("한글", "글로")
    words = [f"w{chr(97 + at % 26)}{chr(97 + at // 26 % 26)}{chr(97 + at // 676)}x" for at in range(6_002)]
    assert len(counted(" ".join(words))) == 6_001  # a word is counted whole, and then no other
