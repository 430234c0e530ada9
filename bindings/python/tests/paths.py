"""How pytest was started says where modules are looked for (MORE: by `python -m`): run by the tests of the plug-in."""

import os
import sys


def test_places(truecount):
    truecount(len, "x")
    assert (os.getcwd() in sys.path) == (os.environ["MORE"] == "1")
