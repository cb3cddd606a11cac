from penstock.processors.tools.command_policy import CommandPolicy as CommandPolicy
from penstock.processors.tools.human_review import HumanReview as HumanReview
from penstock.processors.tools.pins import definition_hash as definition_hash, pins_of as pins_of
from penstock.processors.tools.tool_policy import UNTRUSTED as UNTRUSTED, ToolPolicy as ToolPolicy
