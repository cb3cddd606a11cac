"""What differs between two workflows: `Workflow.diff` returns it as a `WorkflowDiff`."""
