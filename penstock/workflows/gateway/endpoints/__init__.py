"""The protocols that the gateway speaks, one file each: its tables, its prompts, and its words for a verdict."""
