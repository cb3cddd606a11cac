"""The embedded stores: SQLite in a file, shared by tasks and processes, or in memory; they know no processor."""
