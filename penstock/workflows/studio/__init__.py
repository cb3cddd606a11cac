"""The studio: a page on this machine to see workflows, run them, watch runs live, and compare them."""
