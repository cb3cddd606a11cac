"""Texts as detectors read them: without disguises, word by word. Pure; it judges nothing."""
