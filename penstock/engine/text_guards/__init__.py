"""`TextGuard`: guards that read text, whole or streamed."""
