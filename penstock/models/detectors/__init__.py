"""Detectors made of libraries: ONNX models in a folder, Presidio. Guards take them as ``detector=``."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
