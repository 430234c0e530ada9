"""What pyperf cannot read as it is: a count of 0, and two results of one test. Run by the tests of the plug-in."""

import gc


def test_nothing(truecount):
    # A call of C: what it costs is what is taken off.
    truecount(gc.isenabled)
    assert truecount.measured.count <= 300


def test_two(truecount, benchmark):
    truecount(sum, range(1000))
    benchmark(sum, range(100))
