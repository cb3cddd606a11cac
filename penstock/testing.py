"""The public tools for tests: fakes of the ports, and `run_stage`. They live in `penstock.engine.testing`."""

from penstock.engine.testing import CountingIds, RecordingObserver, VirtualClock, run_stage

__all__ = ["CountingIds", "RecordingObserver", "VirtualClock", "run_stage"]
