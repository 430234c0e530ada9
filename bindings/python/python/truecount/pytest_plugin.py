"""The pytest plug-in: tests that count, limits, and pytest under the virtual PMU (``--truecount=virtual``)."""

import collections
import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest

import truecount as _truecount_package

_INSIDE = "TRUECOUNT_PYTHON_INSIDE"
#: Of a test: what it counted. (The stash of tests begins with pytest 7.)
_COUNTED = "_truecount_counted"


def pytest_addoption(parser):
    group = parser.getgroup("truecount", "counts of the CPU's own counters")
    group.addoption(
        "--truecount",
        choices=("native", "virtual"),
        default="native",
        help="who counts: the machine's PMU, or the virtual PMU, under which pytest then runs itself again",
    )
    group.addoption(
        "--truecount-event",
        metavar="EVENT",
        default="instructions:u",
        help="what is counted where no mark says it (instructions:u); the virtual PMU counts branches:u only where it is "
        "named here, also as one more (instructions:u,branches:u)",
    )
    group.addoption("--truecount-json", metavar="FILE", help="write the counts to FILE, also as a baseline")
    group.addoption("--truecount-pyperf", metavar="FILE", help="write the counts to FILE in the format of pyperf")
    group.addoption("--truecount-compare", metavar="FILE", help="compare with the counts in FILE (max_change)")


def pytest_configure(config):
    config.pluginmanager.register(_Session(), "truecount-session")
    config.addinivalue_line(
        "markers",
        "truecount(event='instructions:u', max_instructions=N, max_change='0.5%'): count the test; fail above a limit",
    )
    if not config.pluginmanager.hasplugin("benchmark"):
        config.addinivalue_line("markers", "benchmark: pytest-benchmark's; without effect here")
        config.pluginmanager.register(_BenchmarkFixture(), "truecount-benchmark-fixture")


_FILES = ("--truecount-json", "--truecount-pyperf", "--truecount-compare")


def _joined(arguments):
    """Options with their files as one argument each. Pytest looks for its root before it knows this plug-in's options:
    a file that stands alone and exists is one of the tests' places to it, and the second run has other names than the
    first, and other counts."""
    joined = []
    for argument in arguments:
        if joined and joined[-1] in _FILES:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _started():
    """What starts pytest, as it was started: `python -m pytest` looks for modules in the directory, too, and what lies
    there is in its memory, and so in counts."""
    own = sys.argv[0]
    if os.path.basename(own) in ("pytest", "py.test") and os.path.isfile(own):
        return [sys.executable, own]
    return [sys.executable, "-m", "pytest"]


def _own_cache(config):
    """A cache that is empty at the start, for the run under the virtual PMU: pytest reads what the run before left there,
    and lists the directory that its own is in. Not where options ask for what was left."""
    asked = ("lf", "failedfirst", "newfirst", "stepwise", "cacheshow")
    if not config.pluginmanager.hasplugin("cacheprovider") or any(config.getoption(option, False) for option in asked):
        return []
    # Pytest has not made its own yet: it makes it when it has one to ask.
    directory = os.path.join(config.rootpath, os.path.expandvars(os.path.expanduser(config.getini("cache_dir"))))
    own = os.path.join(directory, "d", "truecount")
    try:
        if not os.path.isdir(directory):
            os.makedirs(directory)
            with open(os.path.join(directory, ".gitignore"), "w", encoding="utf-8") as file:
                file.write("*\n")
        os.makedirs(own, exist_ok=True)
        shutil.rmtree(own)
    except OSError:
        return []
    return ["-o", f"cache_dir={own}"]


@contextlib.contextmanager
def _made_before(config):
    """The files of the counts, empty: pytest lists the directory that they are in, and the first run, which makes them,
    would count otherwise than later ones. They are removed where nothing was written."""
    made = []
    for option in _FILES[:2]:
        path = config.getoption(option)
        if path and path != config.getoption("--truecount-compare"):
            with contextlib.suppress(OSError), open(path, "x"):
                made.append(path)
    try:
        yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                if os.path.getsize(path) == 0:
                    os.unlink(path)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    if config.getoption("--truecount") != "virtual" or os.environ.get(_INSIDE) or _truecount_package._is_virtual():
        return None
    given = list(map(os.fspath, config.invocation_params.args))
    joined = _joined(given)
    if joined != given and any(os.path.exists(argument) for argument in given if argument not in joined):
        # This pytest took the file for a place of tests: its root, and with it the cache's, is another than without one.
        with _truecount_package._interrupts_for_the_program():
            return _ended(subprocess.call([*_started(), *joined]))
    arguments = [*_started(), *_own_cache(config), *joined]
    try:
        # pytest keeps the times that tests take: they are in memory, and move what comes after them.
        with _made_before(config):
            status = _truecount_package.run_virtual(
                arguments, reproducible=True, events=config.getoption("--truecount-event")
            )
    except RuntimeError as error:
        raise pytest.UsageError(f"--truecount=virtual: {error}") from error
    return _ended(status)


def _ended(status):
    """As shells say it of a program that a signal ended."""
    return 128 - status if status < 0 else status


_OPTIONS = ("event", "max_instructions", "max_count", "max_change")


def _options(node):
    """What the marks of a test ask for, of its class and module, too: the nearest one wins, option by option. None where
    there is no mark."""
    options = None
    for marker in reversed(list(node.iter_markers("truecount"))):
        unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in _OPTIONS)]
        if unknown:
            pytest.fail(f"the mark truecount has no {', '.join(unknown)}: it takes {', '.join(_OPTIONS)}", pytrace=False)
        options = {**(options or {}), **marker.kwargs}
    for name in ("max_instructions", "max_count"):
        most = (options or {}).get(name, 0)
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            pytest.fail(f"{name}={most!r}: a number of counts", pytrace=False)
    if options and "max_change" in options:
        _limit(options["max_change"])
    return options


def _limit(text):
    """A largest change: 0.005 for "0.5%", or a number of counts."""
    text = str(text).strip()
    try:
        share, counts = (float(text[:-1]) / 100, None) if text.endswith("%") else (None, int(text))
        if 0 <= (share if counts is None else counts) < float("inf"):
            return share, counts
    except ValueError:
        pass
    pytest.fail(f"max_change={text!r}: a share (\"0.5%\") or a number of counts", pytrace=False)


class Benchmark:
    """What the fixtures ``truecount`` and ``benchmark`` give: call it with a function and its arguments."""

    def __init__(self, node):
        self._node = node
        self._options = _options(node) or {}
        usual, _, _ = node.config.getoption("--truecount-event").partition(",")
        self.event = self._options.get("event", usual.strip())
        self.measured = None
        self.extra_info = {}

    def __call__(self, function, /, *args, **kwargs):
        return self._measure(function, args, kwargs)

    def pedantic(self, target, args=(), kwargs=None, setup=None, rounds=5, warmup_rounds=16, iterations=1):
        """As pytest-benchmark's; `iterations` calls are one round's count divided by them."""
        if iterations != 1:
            if setup is not None:
                raise ValueError("setup needs iterations=1")

            def several(*args, **kwargs):
                for _ in range(iterations - 1):
                    target(*args, **kwargs)
                return target(*args, **kwargs)

            return self._measure(several, args, kwargs or {}, None, rounds, warmup_rounds, iterations)
        return self._measure(target, args, kwargs or {}, setup, rounds, warmup_rounds)

    def _measure(self, function, args, kwargs, setup=None, rounds=5, warmup=16, iterations=1):
        if self.measured is not None:
            raise RuntimeError("a test measures one function: it has measured one already")
        try:
            # To pytest-benchmark everything that is false says nothing.
            prepare = None if setup is None else lambda: setup() or None
            measured = _truecount_package._measure(function, args, kwargs, self.event, rounds, warmup, prepare)
        except _truecount_package.NotAvailableError as error:
            pytest.skip(f"not counted: {error} (pytest --truecount=virtual counts without a PMU)")
        self.measured = measured
        self._keep(measured.count // iterations, measured)
        return measured.result

    def _keep(self, count, measured):
        result = {
            "name": self._node.nodeid,
            "event": measured.event,
            "unit": measured.unit,
            "count": count,
            "counts": measured.counts,
            "source": measured.source,
            "exact": measured.exact,
        }
        if self.extra_info:
            result["extra_info"] = self.extra_info
        # The report takes it to whoever writes it: under pytest-xdist that is another process.
        vars(self._node).setdefault(_COUNTED, []).append(result)
        self._judge(result)

    def _judge(self, result):
        most = self._options.get("max_instructions", self._options.get("max_count"))
        if most is not None and result["count"] > most:
            pytest.fail(f"{result['count']} {result['event']}: more than {most}", pytrace=False)
        if "max_change" not in self._options:
            return
        share, counts = _limit(self._options["max_change"])
        before = _baseline(self._node.config).get((result["name"], result["event"]))
        if before is None:
            return
        if before["source"] != result["source"]:
            pytest.fail(
                f"the baseline was counted by another source ({before['source']}, now {result['source']}): "
                "make it anew by --truecount-json",
                pytrace=False,
            )
        more = result["count"] - before["count"]
        allowed = counts if counts is not None else before["count"] * share
        if more > allowed:
            pytest.fail(
                f"{result['count']} {result['event']}, {more} more than the baseline's {before['count']} "
                f"({more / max(before['count'], 1):+.2%}; max_change={self._options['max_change']})",
                pytrace=False,
            )


def _baseline(config):
    path = config.getoption("--truecount-compare")
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if document["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
        return {(r["name"], r["event"]): r for r in document["results"] if isinstance(r["count"], int)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise pytest.UsageError(
            f"--truecount-compare: {path} is not a baseline ({error}): make one by --truecount-json"
        ) from error


_SCHEMA = "truecount.pytest/1"


class _Once:
    """One call of a test, as a measurement."""

    def __init__(self, c, count):
        self.event, self.unit, self.source, self.exact = c.name, c.unit, c.source, c.exact
        self.counts = [count]


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    own = set(pyfuncitem.fixturenames) & {"truecount", "benchmark"}
    if own or _options(pyfuncitem) is None:
        yield
        return
    benchmark = Benchmark(pyfuncitem)
    try:
        c = _truecount_package.counter(benchmark.event)
    except _truecount_package.NotAvailableError as error:
        pytest.skip(f"not counted: {error} (pytest --truecount=virtual counts without a PMU)")
    try:
        with _truecount_package._without_collection():
            start = c.read()
            outcome = yield
            end = c.read()
        count = c.between(start, end)
        measured = _Once(c, count)
    finally:
        c.close()
    if outcome.excinfo is None:
        benchmark._keep(count, measured)


@pytest.fixture
def truecount(request):
    """Measures a function: ``truecount(function, *args)`` gives its result."""
    return Benchmark(request.node)


class _BenchmarkFixture:
    """The fixture of pytest-benchmark, where that is not installed (or switched off by -p no:benchmark)."""

    @pytest.fixture
    def benchmark(self, request):
        """As the fixture ``truecount``."""
        return Benchmark(request.node)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when != "call":
        return
    counted = vars(item).pop(_COUNTED, [])
    report.truecount = counted
    if report.passed and not counted and item.get_closest_marker("truecount") is not None:
        # Else its limits would be kept by nobody.
        report.outcome = "failed"
        report.longrepr = (
            "the mark truecount asks for a count, and nothing was measured: call the fixture truecount, or benchmark "
            "(pytest-benchmark's own counts nothing: -p no:benchmark); tests of unittest are not counted as a whole"
        )


class _Session:
    """What one run of pytest has counted, as the reports of its tests say it."""

    def __init__(self):
        self.results = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.results.extend(getattr(report, "truecount", ()))

    def pytest_terminal_summary(self, terminalreporter, exitstatus, config):
        files = [config.getoption(option) for option in _FILES[:2] if config.getoption(option)]
        why = _not_whole(exitstatus)
        if not self.results and not (files and why):
            return
        terminalreporter.section("truecount")
        if files and why:
            terminalreporter.write_line(f"not written, since {why}: {', '.join(files)}")
        pyperf = config.getoption("--truecount-pyperf")
        zeros = [r["name"] for r in self.results if min(r["counts"]) == 0]
        if pyperf and zeros and not why:
            terminalreporter.write_line(f"not in {pyperf}, since pyperf knows no 0: {', '.join(zeros)}")
        baseline = _baseline(config)
        width = max((len(r["name"]) for r in self.results), default=0)
        for r in self.results:
            spread = max(r["counts"]) - min(r["counts"])
            line = f"{r['name']:<{width}}  {r['count']:>14,} {r['event']}"
            line += " (" + r["source"] + (f", up to {spread:,} more in {len(r['counts'])} calls" if spread else "") + ")"
            before = baseline.get((r["name"], r["event"]))
            if before is not None:
                line += f"  {(r['count'] - before['count']) / max(before['count'], 1):+.2%}"
            terminalreporter.write_line(line)

    def pytest_sessionfinish(self, session, exitstatus):
        config = session.config
        # A process of pytest-xdist's runs tests for another one, which has their reports.
        if hasattr(config, "workerinput") or config.getoption("collectonly") or _not_whole(exitstatus):
            return
        if getattr(config.option, "dist", "no") != "no":
            # They come as they are ready.
            self.results.sort(key=lambda result: (result["name"], result["event"]))
        _write(config.getoption("--truecount-json"), {"schema": _SCHEMA, "results": self.results})
        _write(config.getoption("--truecount-pyperf"), _pyperf(self.results))


def _not_whole(exitstatus):
    """Why the counts are not those of the tests that were asked for; None where they are."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        return "no tests ran"
    if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return "the tests did not run to their end"
    return None


def _write(path, document):
    """A file whole or not at all, so that a full disk costs no earlier baseline; a pipe or a device as it is."""
    if not path:
        return
    text = json.dumps(document, indent=1) + "\n"
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        target = os.path.realpath(path)
        half = target + ".new"
        try:
            with open(half, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(half, target)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(half)
            raise
    except OSError as error:
        raise pytest.UsageError(f"cannot write the counts: {error}") from error


def _known_to_pyperf(results):
    """Pyperf reads no file that has a value of 0 or a name twice: a test's further results have a number, and what counts 0
    is left out."""
    met = collections.Counter()
    named = []
    for r in results:
        met[r["name"]] += 1
        number = met[r["name"]]
        if min(r["counts"]) > 0:
            named.append({**r, "name": r["name"] if number == 1 else f"{r['name']} ({number})"})
    return named


def _pyperf(results):
    """A suite of pyperf's format, version 1.0: one run a test, its values the counts."""
    return {
        "version": "1.0",
        "metadata": {"unit": "integer"},
        "benchmarks": [
            {
                "metadata": {"name": r["name"], "unit": "integer", "truecount_event": r["event"]},
                "runs": [{"values": [float(count) for count in r["counts"]]}],
            }
            for r in _known_to_pyperf(results)
        ],
    }
