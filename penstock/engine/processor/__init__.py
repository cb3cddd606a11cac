"""`Processor`, the contexts it is called with, and the table of stages."""
