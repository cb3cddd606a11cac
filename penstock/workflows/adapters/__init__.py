"""Workflows in other frameworks, one module a framework. Import the module of yours; each needs its own extra."""
