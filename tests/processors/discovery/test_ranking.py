"""Which texts a query is about: words however they are written, names before descriptions, scores as recorded."""

import pytest
from hypothesis import given, strategies as st

from penstock.processors.discovery.ranking import LARGE_TEXT, MOST_WORDS, TextIndex, ranked_texts, text_index

TOOLS = {
    "create_issue": "Create a GitHub issue in a repository",
    "list_issues": "List GitHub issues",
    "getWeather": "Current conditions in a city",
    "tianqi": "查询城市的天气",
    "compile_cpp": "Compiles C++ with/without optimisation",
    "mausam": "मौसम की जानकारी",
}
INDEX = TextIndex(TOOLS.items())


def found(query: str) -> list[str]:
    """The names that a query is about."""
    return [list(TOOLS)[hit.place] for hit in INDEX.search(query)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("weather", "getWeather"),
        ("getWeather", "getWeather"),
        ("get_weather", "getWeather"),
        ("GETWEATHER", "getWeather"),
        ("create issue", "create_issue"),
        ("please list_issues now", "list_issues"),
        ("C++", "compile_cpp"),
        ("without", "compile_cpp"),
        ("天气", "tianqi"),
        ("मौसम", "mausam"),
    ],
)
def test_a_query_finds_first_what_it_names(query: str, first: str) -> None:
    """However the name is written, and whatever the script."""
    assert found(query)[0] == first


def test_a_word_that_begins_a_word_of_the_name_is_enough() -> None:
    """So the singular finds the plural; two letters begin too many names."""
    assert found("issue") == ["create_issue", "list_issues"]
    assert found("li") == []


def test_what_nothing_is_about_finds_nothing() -> None:
    """Neither a strange word, nor none, nor signs, nor single letters."""
    assert [found(query) for query in ("quantum", "", " ?! ", "a")] == [[], [], [], []]


def test_an_empty_index_finds_nothing() -> None:
    """Nor do names without a word divide by zero."""
    assert TextIndex([]).search("x") == []
    assert TextIndex([("_", "")]).search("x") == []


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    """And more of a word more than less of it, but not without end."""
    index = TextIndex([("a1", "disk disk disk"), ("b1", "disk"), ("c1", "disk tape")])
    assert [hit.place for hit in index.search("tape")] == [2]
    [first, *_] = index.search("disk")
    assert first.place == 0
    assert index.search("disk tape")[0].place == 2


def test_equal_scores_keep_the_order_given() -> None:
    """So the same query gives the same list."""
    index = TextIndex([(name, "the same words") for name in ("z", "m", "a")])
    assert [hit.place for hit in index.search("words")] == [0, 1, 2]


def test_the_index_of_equal_texts_is_made_once() -> None:
    """Requests with the same tools share it."""
    assert text_index((("a", "b"),)) is text_index((("a", "b"),))


async def test_much_is_read_in_a_thread_with_the_same_hits() -> None:
    """So that no other request waits for it."""
    texts = [("one", "word " * LARGE_TEXT), ("two", "needle")]
    assert await ranked_texts("needle", texts) == TextIndex(texts).search("needle")


@given(st.text(max_size=40), st.lists(st.tuples(st.text(max_size=12), st.text(max_size=40)), max_size=6))
def test_any_text_can_be_searched_for_and_in(query: str, texts: list[tuple[str, str]]) -> None:
    """Scores are above 0, the best first."""
    scores = [hit.score for hit in TextIndex(texts).search(query)]
    assert all(score > 0 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_of_a_query_without_end_only_the_beginning_counts() -> None:
    """What a model asks for takes its time for every text; nobody names a tool in a thousand words."""
    assert INDEX.search("weather " + "nothing " * MOST_WORDS) == INDEX.search("weather " + "nothing " * 100_000)
    assert found("nothing " * MOST_WORDS + "weather") == []
