"""The worker process: it loads one version of one workflow or agent, describes it, and runs it."""
