"""Marks that ask for what does not exist, and limits that nobody would keep: run by the tests of the plug-in."""

import unittest

import pytest


@pytest.mark.truecount(max_instrucions=5)
def test_misspelt():
    pass


@pytest.mark.truecount(10)
def test_without_a_name(truecount):
    truecount(len, "x")


@pytest.mark.truecount(max_instructions="many")
def test_no_number():
    pass


@pytest.mark.truecount(max_change="-1%")
def test_no_share():
    pass


@pytest.mark.truecount(max_instructions=10_000)
def test_not_measured(truecount):
    pass


@pytest.mark.truecount(max_instructions=10)
class TestLimitOfTheClass:
    @pytest.mark.truecount(event="instructions:u")
    def test_is_kept(self, truecount):
        truecount(sum, range(1000))


class TestOfUnittest(unittest.TestCase):
    @pytest.mark.truecount(max_instructions=10_000)
    def test_is_not_counted(self):
        pass


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_sizes(truecount, size):
    truecount(sum, range(size))


@pytest.fixture
def data(truecount):
    return truecount(list, range(10))


def test_a_fixture_measures(data):
    assert len(data) == 10
