"""Exceptions: one for each cause, each with its hint."""


class Error(Exception):
    """What failed (the first argument) and what to do about it (``hint``)."""

    status = 0

    def __init__(self, cause, hint=""):
        super().__init__(f"{cause}; {hint}" if hint else cause)
        self.cause = cause
        self.hint = hint


class EventError(Error, ValueError):
    """The text does not name one event."""


class NotAvailableError(Error):
    """The machine, the kernel or the rights of this user do not give the event."""


class ThreadError(Error):
    """Another thread opened it."""


class ForkedError(Error):
    """The parent process opened it."""


class ClosedError(Error):
    """It is closed."""


class NoCountError(Error):
    """It was not counted all the time."""


class RecorderError(Error, OSError):
    """A profile cannot be created or written."""

    def __str__(self):
        return self.args[0]


class NestingError(Error):
    """A region ends that has not begun."""


_KINDS = {
    1: EventError,
    2: NotAvailableError,
    3: ThreadError,
    4: ForkedError,
    5: ClosedError,
    8: NoCountError,
    9: RecorderError,
    10: NestingError,
}


_WORDS = {
    "`truecount run -- PROGRAM`": "`python -m truecount PROGRAM` (or `pytest --truecount=virtual`)",
    "`truecount run -e branches:u -- PROGRAM`": "`python -m truecount -e branches:u PROGRAM` "
    "(or `pytest --truecount=virtual --truecount-event=branches:u`)",
    "name one event, or open several by truecount_group_open()": "name one event, and take a counter for each",
    "one of the two points is TRUECOUNT_INVALID": "one of the two is no point",
    "look at truecount_error_message() after such a read": "pass what read() gave",
}


def in_python(hint):
    """A text of the C interface in the words of this one."""
    for c, own in _WORDS.items() if hint else ():
        hint = hint.replace(c, own)
    return hint


def make(status, cause, hint):
    """The exception of a status of the C interface."""
    error = _KINDS.get(status, Error)(in_python(cause), in_python(hint))
    error.status = status
    return error
