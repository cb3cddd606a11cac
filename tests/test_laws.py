"""What `make test` leaves to `make test-rest`: of a product of parameters, what repeats; of laws, most examples."""

import itertools
import re
from collections import Counter
from pathlib import Path

from tests.laws import FEW, OFTEN, repeated, seeds


def test_of_a_product_each_value_is_tried() -> None:
    """As often as the number says, and the same cases each time."""
    cases = [*itertools.product("abcdef", range(7), (False, True))]
    left = [*repeated(cases, list)]
    taken = [case for case in cases if case not in left]
    assert min(Counter(itertools.chain(*taken)).values()) >= OFTEN
    assert len(taken) < len(cases) / 3
    assert left == [*repeated(cases, list)]


def test_of_a_list_each_case_is_tried() -> None:
    """None has a value of another, and few cases are not worth a choice."""
    assert not repeated([(value,) for value in range(500)], list)
    assert not repeated([("a", "b")] * FEW, list)


def test_a_quarter_of_the_seeds_is_tried() -> None:
    """Rounded up: a law with one seed is tried."""
    for count, tried in ((1, 1), (4, 1), (5, 2), (120, 30)):
        assert sum(isinstance(each, int) for each in seeds(range(count))) == tried


def test_each_law_takes_its_examples_from_the_profile() -> None:
    """A number of its own would be tried whole by `make test`: write `max_examples=examples(200)`."""
    files = Path(__file__).parent.rglob("*.py")
    whole = [path.name for path in files if re.search(r"max_examples=\d", path.read_text("utf-8"))]
    assert whole == []
