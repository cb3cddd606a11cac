"""The public tools for tests: fakes of the ports, and calls that run a stage, from `penstock.engine.testing`."""

from penstock.engine.testing import CountingIds, RecordingObserver, VirtualClock, run_stage, run_stream

__all__ = ["CountingIds", "RecordingObserver", "VirtualClock", "run_stage", "run_stream"]
