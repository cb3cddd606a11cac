"""What a process of a test does about Ctrl-C, whoever runs the tests."""

import signal


def heed_ctrl_c() -> None:
    """Let Ctrl-C end this process: a shell starts a job in the background with SIGINT ignored, and a child inherits it.

    It is a ``preexec_fn`` of `subprocess.Popen`, and takes no lock.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
