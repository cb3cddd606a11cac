"""The arguments of every command, with their help texts."""
