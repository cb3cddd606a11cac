from penstock.tools.context import ToolContext as ToolContext, ToolError as ToolError, ToolFailed as ToolFailed
from penstock.tools.tool import Tool as Tool
