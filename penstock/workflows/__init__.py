"""What puts processors to work: agent, presets, adapters, gateway, command line; nothing below knows that it exists."""
