"""The parameters of a guarded component by name, for dictionaries and YAML."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar, Self, cast

from haystack.core.errors import DeserializationError, SerializationError
from haystack.core.serialization import component_to_dict, default_to_dict, import_class_by_name
from haystack.utils.deserialization import deserialize_component_inplace

from penstock.engine.processor.processor import Processor
from penstock.engine.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json
    from penstock.workflows.hosting import HostOptions


class Stored:
    """A component that is stored as a dictionary: processors by the names of the variables that hold them."""

    _part: ClassVar[str | None] = None
    """The name of the attribute with the component that it guards; None if it guards none."""
    _make: ClassVar[Callable[..., object]]
    """Returns the component for its part, processors and options."""
    _named: Named

    def to_dict(self) -> Json:
        """Return it as a dictionary: processors by the names of the variables that hold them.

        Raises:
            SerializationError: a processor is not held by a variable of a module, or an option is no plain value.
        """
        inner = {} if self._part is None else {self._part: component_to_dict(getattr(self, self._part), self._part)}
        return default_to_dict(self, **inner, **self._named.to_dict())

    @classmethod
    def from_dict(cls, data: Json) -> Self:
        """Return the component of a dictionary.

        Raises:
            DeserializationError: a name does not lead to a processor, or its module is not allowed.
        """
        given = dict(data["init_parameters"])
        if cls._part is not None:
            deserialize_component_inplace(given, key=cls._part)
        processors, options = loaded(given)
        return cast("Self", cls._make(*([given[cls._part]] if cls._part else []), *processors, **options))


class Named:
    """The parameters of a guarded component. Processors are stored by the names of the variables that hold them."""

    def __init__(self, processors: Sequence[Item], options: HostOptions) -> None:
        self._processors = processors
        self._options = options

    def to_dict(self) -> Json:
        """Return the parameters.

        Raises:
            SerializationError: a processor is not held by a variable of a module, or an option is no plain value.
        """
        options: Json = dict(self._options)
        if options.pop("observers", None):
            raise SerializationError("observers cannot be stored; add them when the pipeline was loaded")
        for name in _LISTS & options.keys():
            options[name] = [_path_of(item) for item in options[name]]
        return {"processors": [_path_of(item) for item in self._processors], "options": options}


_LISTS = frozenset({"input_processors", "output_processors", "error_processors"})


def _path_of(item: Item) -> str:
    """Return the name of the variable of a module that holds a processor or workflow.

    Raises:
        SerializationError: there is none.
    """
    for name, module in list(sys.modules.items()):
        if name != "__main__":
            for key, value in list(getattr(module, "__dict__", {}).items()):
                if value is item and not key.startswith("_"):
                    return f"{name}.{key}"
    raise SerializationError(
        f"{type(item).__name__} cannot be stored: no variable of an imported module holds it. Assign it to one in a "
        "module that the program which loads the pipeline can import"
    )


def loaded(given: Json) -> tuple[list[Item], HostOptions]:
    """Return the processors and options of a dictionary.

    Raises:
        DeserializationError: a name does not lead to a processor, or its module is not allowed.
    """
    options: Json = dict(given.get("options") or {})
    for name in _LISTS & options.keys():
        options[name] = [_item_at(path) for path in options[name]]
    return [_item_at(path) for path in given["processors"]], cast("HostOptions", options)


def _item_at(path: str) -> Item:
    found: object = import_class_by_name(path)
    if not isinstance(found, (Workflow, Processor)):
        raise DeserializationError(f"{path} is a {type(found).__name__}, not a processor or workflow")
    return found
