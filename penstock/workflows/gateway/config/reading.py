"""`read_gateway`: a gateway file with its policies and keys, every fault at its place."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.values.errors import PenstockError
from penstock.stores.opening import file_of
from penstock.workflows.gateway.config.client_keys import ClientKeys, read_keys
from penstock.workflows.gateway.config.crosschecks import COMMAND_LINE, check_gateway, check_upstream
from penstock.workflows.gateway.config.kinds import read_section
from penstock.workflows.gateway.config.named import named_policies, named_upstreams, upstream_names
from penstock.workflows.gateway.config.policies import RoutePolicies
from penstock.workflows.gateway.config.sections import VERSION, GatewaySection, RouteSection, ShareSection
from penstock.workflows.gateway.secret import Secret
from penstock.workflows.loading import load_rule
from penstock.workflows.policies.environment import with_environment
from penstock.workflows.policies.files import FileState, file_bytes
from penstock.workflows.policies.problems import FilePlace, PolicyError, Problems, StopReadingError
from penstock.workflows.policies.yaml_nodes import MappingNode, read_nodes, text_of_bytes, text_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.workflows.gateway.config.kinds import FileSection
    from penstock.workflows.gateway.config.sections import ReviewsSection
    from penstock.workflows.policies.yaml_nodes import PolicyNode
    from penstock.workflows.review.deciding import MayDecide


@dataclass(frozen=True)
class GatewayDocument:
    """A gateway that was read: nothing of it is open or running yet.

    Attributes:
        section: its file.
        policies: its policies, by the names in the file.
        keys: the keys of clients; None: none is asked for.
        operators: the keys of those who decide about requests that wait; None: none wait.
        review_store: the address of the store in which they wait, a file with its folder; None: none wait.
        may_decide: the rule about which operators may decide; None: all of them.
        environment: the variables that hold keys of providers.
        files: the files that it was made of, each with its state when it was read; None if it could not be read.
    """

    section: GatewaySection
    policies: RoutePolicies
    keys: ClientKeys | None = None
    operators: ClientKeys | None = None
    review_store: Secret | None = None
    may_decide: MayDecide | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    files: Mapping[str, FileState | None] = field(default_factory=dict[str, "FileState | None"])


def read_gateway(path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> GatewayDocument:
    """Return a gateway file, with its policies and the keys of its clients.

    Args:
        path: the file, YAML (``.yaml``, ``.yml``) or JSON (``.json``). Files that it names are found from its folder.
        environment: the variables for ``${NAME}`` and ``key_env``. None: those of the process.

    Raises:
        PolicyError: one of the files cannot be read or has problems: all of them, each with its line and column.
    """
    reading = _GatewayReading(os.environ if environment is None else environment)
    return reading.whole(lambda: reading.file(os.fspath(path)), str(Path(path).parent))


def gateway_of(
    section: GatewaySection, *, folder: str = ".", environment: Mapping[str, str] | None = None
) -> GatewayDocument:
    """Return a gateway of a section that was made in Python, or of the arguments of the command.

    Args:
        section: the section.
        folder: where files are found that it names.
        environment: the variables for ``key_env``. None: those of the process.

    Raises:
        PolicyError: the section, or a file that it names, has problems.
    """
    reading = _GatewayReading(os.environ if environment is None else environment)
    return reading.whole(lambda: section, folder)


def is_gateway_file(path: str) -> bool:
    """Return whether a file is a gateway file, and not a policy file: its first key is ``gateway``."""
    problems = Problems()
    try:
        text = text_of_bytes(file_bytes(path)[0], path, problems)
    except (OSError, ValueError):
        return False
    node = None if text is None else read_nodes(text, path, problems)
    return isinstance(node, MappingNode) and "gateway" in node.entries


@dataclass
class _GatewayReading:
    """Reads a gateway file and those that it names. Lives as long as that takes."""

    environment: Mapping[str, str] = field(repr=False)  # it holds keys
    problems: Problems = field(default_factory=Problems)
    files: dict[str, FileState | None] = field(default_factory=dict[str, "FileState | None"])

    def whole(self, section: _Made, folder: str) -> GatewayDocument:
        found: GatewayDocument | None = None
        try:
            made = section()
            found = None if made is None else self._document(_with_route(made), folder)
        except StopReadingError:
            pass
        if found is None or len(self.problems):
            raise PolicyError(self.problems.found, self.files)
        return found

    def _document(self, section: GatewaySection, folder: str) -> GatewayDocument:
        keys = None if section.keys is None else self._keys(section.keys, section.keys.file, "file", folder)
        asked = section.reviews
        operators = None if asked is None else self._keys(asked, asked.operators, "operators", folder)
        policies = RoutePolicies(folder, self.problems, self.files)
        for name, place in _policies_of(section):
            policies.load(name, place)
        check_gateway(section, keys, self.environment, self.problems)
        store = None if asked is None else _in_folder(asked.store, folder)
        rule = None if asked is None else self._rule(asked, folder)
        return GatewayDocument(section, policies, keys, operators, store, rule, self.environment, self.files)

    def _rule(self, section: ReviewsSection, folder: str) -> MayDecide | None:
        try:
            return load_rule(section.may_decide, folder)
        except PenstockError as error:
            self.problems.add(section.places.get("may_decide") or FilePlace(folder), str(error))
            return None

    def file(self, name: str) -> GatewaySection | None:
        text = text_of_file(name, FilePlace(name), self.problems, self.files)
        node = None if text is None else read_nodes(text, name, self.problems)
        if node is None:
            return None
        if not isinstance(node, MappingNode) or "gateway" not in node.entries:
            self.problems.add(node.place, f"this is no gateway file; its first line is `gateway: {VERSION}`")
            return None
        filled: PolicyNode = with_environment(node, self.environment, self.problems)
        section = read_section(GatewaySection, filled, "a gateway file", self.problems)
        if section is None and isinstance(filled, MappingNode):
            self._check_names(filled, name)
        return section

    def _check_names(self, root: MappingNode, file: str) -> None:
        """Add the faults of the policies and providers that a file with faults of its own names."""
        policies = RoutePolicies(str(Path(file).parent), self.problems, self.files)
        for node in named_policies(root):
            policies.load(node.text, node.place)
        known = upstream_names(root)
        if known is not None:
            for node in named_upstreams(root):
                check_upstream(node.text, node.place, known, self.problems)

    def _keys(self, section: FileSection, file: str, key: str, folder: str) -> ClientKeys:
        name = str(Path(folder) / file)
        place = section.places.get(key, FilePlace(name))
        text = text_of_file(name, place, self.problems, self.files)
        return ClientKeys(()) if text is None else read_keys(text, name, self.problems)


def _in_folder(address: Secret, folder: str) -> Secret:
    """Return the address of a store; the path of a file is found from a folder."""
    written = address.reveal()
    if "://" in written and not written.startswith("sqlite:"):
        return address
    return Secret(str(Path(folder) / file_of(written)))


def _with_route(section: GatewaySection) -> GatewaySection:
    """Return a gateway whose routes have names and providers, with one route for everything if it has none."""
    if section.checks is not None and not section.upstreams and not section.routes:
        return section  # it answers checks, and nothing else
    only = tuple(ShareSection(name=name) for name in section.upstreams) if len(section.upstreams) == 1 else ()
    routes = section.routes or (RouteSection(name="all", places=section.places),)
    named = [
        replace(
            route,
            name=route.name or f"route-{number}",
            upstream=route.upstream or only,
            policy=route.policy or section.policy,
        )
        for number, route in enumerate(routes, 1)
    ]
    return replace(section, routes=tuple(named))


def _policies_of(section: GatewaySection) -> Iterable[tuple[str, FilePlace]]:
    """Yield the names of all policies, each with its place."""
    nowhere = section.places.get("policy", FilePlace(COMMAND_LINE))
    if section.checks is not None:
        yield section.checks, section.places.get("checks", nowhere)
    for route in section.routes:
        if route.policy is not None:
            yield route.policy, route.places.get("policy", nowhere)
        for shadow in route.shadow:
            yield shadow.policy, shadow.places.get("policy", nowhere)


if TYPE_CHECKING:
    from collections.abc import Callable

    _Made = Callable[[], GatewaySection | None]
