"""Discovery: processors that show a model what there is, and bring it what it asks for: tools, skills, instructions."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.discovery.agents_md import AgentsMDInjector
    from penstock.processors.discovery.file_reader import FileReader
else:
    __getattr__, __dir__ = lazily(__name__, agents_md=["AgentsMDInjector"], file_reader=["FileReader"])

__all__ = ["AgentsMDInjector", "FileReader"]
