"""What Python code costs in the CPU's own counters: exact, the same on every run.

    import truecount

    with truecount.counter("instructions:u") as c:
        work()
    print(c.count)

Where the machine has no PMU, run the program by ``python -m truecount program.py``: it has the virtual PMU then.
"""

import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import types

from . import _truecount
from ._errors import (
    ClosedError,
    Error,
    EventError,
    ForkedError,
    NestingError,
    NoCountError,
    NotAvailableError,
    RecorderError,
    ThreadError,
    in_python,
)
from ._truecount import Counter, known_loop

__version__ = "0.1.0"
__all__ = [
    "ClosedError",
    "Counter",
    "Error",
    "EventError",
    "ForkedError",
    "Measured",
    "NestingError",
    "NoCountError",
    "NotAvailableError",
    "RecorderError",
    "ThreadError",
    "available",
    "counted",
    "counter",
    "known_loop",
    "measure",
    "regions",
    "run_virtual",
    "why_not",
]

#: Rounds after which CPython has specialized a short function.
_WARM = 64


def available():
    """Whether instructions:u can be counted here."""
    return _truecount.why_not() is None


def why_not():
    """Why instructions:u cannot be counted here, and what to do; None where it can be."""
    return in_python(_truecount.why_not())


def _of_another_module():
    """A function that does nothing, with globals of its own: CPython 3.9 looks up the builtins where a call leads to
    another module, as calls of what is measured do."""
    scope = {"__builtins__": __builtins__, "__name__": "truecount._nothing"}
    exec("def nothing():\n    pass\n", scope)
    return scope["nothing"]


_nothing = _of_another_module()


def _empty_blocks(c):
    least = None
    for _ in range(_WARM):
        with c:
            pass
        if least is None or c.count < least:
            least = c.count
    return least


def _calibrate(c):
    with _without_collection():
        c._overhead = _empty_blocks(c)
        c._call_overhead = min(c.call(_nothing)[0] for _ in range(_WARM))
    return c


@contextlib.contextmanager
def _without_collection():
    """As timeit does: a collection that falls into a region is not the region's."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def counter(event="instructions:u"):
    """A counter of the calling thread: ``with`` it, and ``count`` is what the block cost. Blocks may nest; those of tasks
    and generators, which may overlap, need a counter each (else NestingError)."""
    return _calibrate(Counter(event))


class Measured:
    """What :func:`measure` found: the counts in the order of the calls, and the last call's result."""

    __slots__ = ("counts", "event", "exact", "result", "source", "unit")

    def __init__(self, c, counts, result):
        self.event = c.name
        self.unit = c.unit
        self.source = c.source
        self.exact = c.exact
        self.counts = counts
        self.result = result

    @property
    def count(self):
        """The least count: that of a call that nothing came between."""
        return min(self.counts)

    @property
    def spread(self):
        """The largest count less the least one: 0 where all calls cost the same."""
        return max(self.counts) - min(self.counts)

    def __repr__(self):
        spread = f" to {max(self.counts)}" if self.spread else ""
        return f"<{self.count}{spread} {self.event} ({self.source}), {len(self.counts)} calls>"


def measure(function, /, *args, event="instructions:u", runs=5, warmup=16, setup=None, **kwargs):
    """Calls a function `warmup` times uncounted and `runs` times counted. `setup()`, called before every call, may give
    ``(args, kwargs)`` for it; it is not counted."""
    return _measure(function, args, kwargs, event, runs, warmup, setup)


#: CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR of the module inspect.
_RUNS_LATER = 0x20 | 0x80 | 0x100 | 0x200


def _check_runs(function):
    """A call of a generator or coroutine runs none of its code: its count would be nothing's."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(getattr(type(function), "__call__", None), "__code__", None)
    if getattr(code, "co_flags", 0) & _RUNS_LATER:
        raise _runs_later(function)


def _runs_later(function):
    return TypeError(
        f"a call of {getattr(function, '__name__', type(function).__name__)} runs none of its code: count what runs it "
        "(lambda: list(f()), lambda: asyncio.run(f()))"
    )


def _given(setup, args, kwargs):
    """What a function is called with after its setup."""
    given = setup()
    if given is None:
        return args, kwargs
    if isinstance(given, tuple) and len(given) == 2:
        args, kwargs = given
        if isinstance(args, (tuple, list)) and isinstance(kwargs, dict):
            return args, kwargs
    raise TypeError(f"setup gives None or (args, kwargs), such as ((1, 2), {{}}), not {given!r:.100}")


def _measure(function, args, kwargs, event, runs, warmup, setup=None):
    if runs < 1:
        raise ValueError("runs must be at least 1")
    if warmup < 0:
        raise ValueError("warmup must be at least 0")
    _check_runs(function)
    c = counter(event)
    counts, result = [], None
    try:
        with _without_collection():
            if not isinstance(function, (types.FunctionType, types.MethodType)):
                # A call of C takes less than one of Python: with that taken off, short functions would cost 0.
                c._call_overhead = 0
                c._call_overhead = min(c.call(gc.isenabled)[0] for _ in range(_WARM))
            for turn in range(warmup + runs):
                if setup is not None:
                    args, kwargs = _given(setup, args, kwargs)
                count, result = c.call(function, tuple(args), kwargs or None)
                if isinstance(result, types.CoroutineType):
                    # Of a lambda, say, or of what wraps a coroutine's function.
                    result.close()
                    raise _runs_later(function)
                if turn >= warmup:
                    counts.append(count)
        return Measured(c, counts, result)
    finally:
        c.close()


def counted(event="instructions:u"):
    """A decorator: the decorated function has the counts of its calls in ``counts`` (the last 1000)."""

    def decorate(function):
        import collections

        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(decorate(function.__func__))
        if not callable(function):
            raise TypeError(f"counted decorates functions, not {type(function).__name__}")
        _check_runs(function)
        own = threading.local()
        counts = collections.deque(maxlen=1000)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            c = getattr(own, "counter", None)
            if c is None or own.process != os.getpid():
                c = own.counter = counter(event)
                own.process = os.getpid()
            count, result = c.call(function, args, kwargs or None)
            counts.append(count)
            return result

        wrapper.counts = counts
        return wrapper

    if not isinstance(event, str):
        function, event = event, "instructions:u"
        return decorate(function)
    return decorate


class _Region:
    __slots__ = ("overlapped",)

    def __init__(self):
        self.overlapped = False


class _Regions:
    def __init__(self, path, events):
        self._recorder = _truecount.Recorder(os.fspath(path), ";".join(events))
        self._own = threading.local()

    @contextlib.contextmanager
    def region(self, label):
        """A region; regions nest. Those of tasks and generators that overlap raise NestingError."""
        own = self._own.__dict__.setdefault("open", [])
        self._recorder.begin(label)
        mine = _Region()
        own.append(mine)
        try:
            yield
        finally:
            self._end(mine)

    def _end(self, mine):
        own = self._own.__dict__.get("open", [])
        if not own or own[-1] is not mine:
            mine.overlapped = True
            raise NestingError("the regions overlap", "end the innermost region first, on its own thread")
        own.pop()
        self._recorder.end()
        # What could not end before this one.
        while own and own[-1].overlapped:
            own.pop()
            self._recorder.end()

    __call__ = region

    def flush(self):
        self._recorder.flush()

    def close(self):
        self._recorder.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def regions(path, events=("instructions:u",)):
    """Records regions into a profile that `truecount profile` reads::

        with truecount.regions("out") as region:
            with region("parse"):
                parse()
    """
    if isinstance(events, str):
        events = (events,)
    return _Regions(path, events)


def run_virtual(arguments, environment=None, reproducible=False, events="instructions:u"):
    """Runs a program under the virtual PMU; gives its exit status (negative: its signal). What makes identical runs
    of Python differ is held constant: addresses, and the seed of hashes (PYTHONHASHSEED=0, unless it is set). With
    `reproducible` clocks go on by instructions, and random bytes are the same in every run: for tests. `events`: what
    the program will count (branches:u is not there otherwise)."""
    if isinstance(arguments, (str, bytes)):
        raise TypeError("arguments is a list: the program, and each of its arguments")
    if _is_virtual():
        raise RuntimeError("this program runs under the virtual PMU already: what it starts does, too")
    given = dict(environment or {})
    if "PYTHONHASHSEED" not in given and "PYTHONHASHSEED" not in os.environ:
        given["PYTHONHASHSEED"] = "0"
    # What a run leaves for the next one changes what that one does.
    given.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    given["TRUECOUNT_PYTHON_INSIDE"] = "1"
    with _interrupts_for_the_program():
        return _truecount.run_virtual(
            [os.fsdecode(a) for a in arguments],
            sorted(given.items()),
            reproducible,
            any(event.strip() != "instructions:u" for event in events.split(",")),
        )


def _is_virtual():
    """Whether it is the virtual PMU that counts here."""
    try:
        c = Counter("instructions:u")
    except NotAvailableError:
        return False
    virtual = c.source == "virtual"
    c.close()
    return virtual


@contextlib.contextmanager
def _interrupts_for_the_program():
    """Ctrl-C goes to the program that is run, too: what it makes of it, and its exit status, are what counts. Not ignored:
    the program would inherit that."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) and before is not signal.SIG_DFL:
        yield
        return
    try:
        signal.signal(signal.SIGINT, lambda *_: None)
    except ValueError:  # Not the main thread: Python's handler does not run on this one.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _main():
    arguments = sys.argv[1:]
    events = "instructions:u"
    if arguments[:1] == ["-e"]:
        events, arguments = "".join(arguments[1:2]), arguments[2:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m truecount [-e EVENTS] [-m MODULE | SCRIPT] [ARGUMENT ...]\n"
              "Runs a Python program under the virtual PMU, where truecount counts without a PMU: instructions:u, and with\n"
              "-e branches:u these, too.")
        return 0 if arguments else 2
    try:
        status = run_virtual([sys.executable, *arguments], events=events)
    except RuntimeError as error:
        print(f"truecount: {error}", file=sys.stderr)
        return 1
    return 128 - status if status < 0 else status
