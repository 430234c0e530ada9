"""Ctrl-C in the middle: run by the tests of the plug-in."""

import os
import signal


def test_before(truecount):
    truecount(sum, range(1000))


def test_interrupted():
    # A terminal sends it to all of the processes.
    if "TRUECOUNT_PYTHON_INSIDE" in os.environ:
        os.kill(os.getppid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)


def test_after(truecount):
    truecount(sum, range(1000))
