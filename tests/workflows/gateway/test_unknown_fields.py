"""Unknown fields of requests and answers, and long numbers in known ones."""

import pytest

from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.gateway.tables import places


@pytest.mark.parametrize("value", [1, True, 0, 4111111111111111, 1.5])
def test_an_unknown_field_of_a_request_is_unknown_whatever_it_holds(value) -> None:
    """Except null, false and empty ones; in an answer, counters and booleans pass."""
    for spec in {id(endpoint): endpoint.request for endpoint in ENDPOINTS.values()}.values():
        assert [place.path for place in places(spec, {"brand_new": value}, asked=True).unknown] == [("brand_new",)]
        for nothing in (None, False, "", [], {}):
            assert not places(spec, {"brand_new": nothing}, asked=True).unknown
    told = places(ENDPOINTS["/v1/chat/completions"].answer, {"brand_new": value}).unknown
    assert bool(told) == (value == 4111111111111111)


@pytest.mark.parametrize("value", [4111111111111111, [4111111111111111], 411111111111.0])
def test_a_long_number_in_a_request_is_read(value) -> None:
    """A card's number fits into a seed."""
    spec = ENDPOINTS["/v1/chat/completions"].request
    assert [place.path for place in places(spec, {"seed": value}, asked=True).known] == [("seed",)]
    for usual in (42, 1234.567890123456, 2_147_483_647, "chatcmpl-411111111111"):
        assert not places(spec, {"seed": usual}, asked=True).known
