"""What flows through a workflow, as values: messages, chunks, edits, facts, verdicts, records, and the ports."""
