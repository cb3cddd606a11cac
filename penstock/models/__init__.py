"""Models to be asked, by protocol and by name; it knows no processor and no agent."""
