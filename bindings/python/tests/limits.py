"""Tests that must fail by their limits: run by the tests of the plug-in."""

import os

import pytest

SIZE = 1000 + int(os.environ.get("MORE", "0"))


@pytest.mark.truecount(max_instructions=10)
def test_too_many(truecount):
    truecount(lambda: sum(range(1000)))


@pytest.mark.truecount(max_change="0.5%")
def test_change(benchmark):
    benchmark(lambda: sum(range(SIZE)))
