"""One test of the usual event and one of branches: run by the tests of the plug-in."""

import pytest


def test_usual(truecount):
    truecount(sum, range(1000))


@pytest.mark.truecount(event="branches:u")
def test_branches(truecount):
    truecount(sum, range(1000))
    assert truecount.measured.count > 1000
