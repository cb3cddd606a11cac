"""Scoring text for hate, harassment, violence, self-harm and sexual content."""
