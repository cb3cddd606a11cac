"""The recorded runtime scenarios that need no agent: driver, projection, rules and one function a scenario."""
