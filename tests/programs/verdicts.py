"""Runs modules of Python's own test suite and prints the verdict of each test, in order of names.

    python verdicts.py MODULE [MODULE...]

For comparing two runs test by test: some fail natively on some machines, and the text of a failure
names threads, addresses and times. Details go to the file named by VERDICTS_LOG.
"""

import faulthandler
import os
import sys
import unittest

from test import support

# As the suite's own runner has it without -u and -v: no network, no sound, no large files.
support.use_resources = []
support.verbose = 0
if __name__ == "__main__":
    faulthandler.dump_traceback_later(float(os.environ.get("VERDICTS_LIMIT", "600")), exit=True)


class Verdicts(unittest.TextTestResult):
    def __init__(self, *arguments, **names):
        super().__init__(*arguments, **names)
        self.verdicts = {}

    def note(self, test, verdict):
        # A subtest or a second error does not make a failed test good again.
        before = self.verdicts.get(test.id())
        if before in (None, "ok"):
            self.verdicts[test.id()] = verdict

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "error")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "unexpected success")


if __name__ == "__main__":
    names = [name if name.startswith("test.") else "test." + name for name in sys.argv[1:]]
    with open(os.environ.get("VERDICTS_LOG", os.devnull), "w") as log:
        suite = unittest.defaultTestLoader.loadTestsFromNames(names)
        result = unittest.TextTestRunner(stream=log, verbosity=2, resultclass=Verdicts).run(suite)
    for name, verdict in sorted(result.verdicts.items()):
        print(name, verdict)
    print(result.testsRun, "run")
