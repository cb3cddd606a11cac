"""The engine: what a workflow is and how it runs. It knows no processor, no model vendor and no screen."""
