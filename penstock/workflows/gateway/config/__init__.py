"""The gateway file: its keys, reading it with all faults at their places, its JSON Schema, and the keys of clients."""
