"""The built-in processors, one a file, in families that do not know each other; they know only the engine."""
