"""Tools: functions that a model may call. A low room: every family of processors may bring tools."""
