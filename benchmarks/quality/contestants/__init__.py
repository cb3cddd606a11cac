"""Who is measured: our detectors, the floor, and the packages that people would take instead, one a file."""
