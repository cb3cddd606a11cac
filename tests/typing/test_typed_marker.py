"""Whether users' type checkers are told to read the package's annotations; checked strictly, as all in this folder."""

from importlib.resources import files


def test_the_package_says_that_it_is_typed() -> None:
    """PEP 561: without this file its types are ignored wherever it is installed."""
    assert files("penstock").joinpath("py.typed").is_file()
