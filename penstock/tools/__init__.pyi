from penstock.tools.context import ToolContext as ToolContext
from penstock.tools.errors import ToolError as ToolError, ToolFailed as ToolFailed
from penstock.tools.tool import Tool as Tool
