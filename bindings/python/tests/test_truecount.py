"""Runs under the virtual PMU: python -m truecount -m pytest tests, or pytest --truecount=virtual."""

import asyncio
import concurrent.futures
import contextlib
import functools
import gc
import multiprocessing
import os
import sys
import threading
import warnings

import pytest

import truecount

pytestmark = pytest.mark.skipif(not truecount.available(), reason=truecount.why_not() or "")


#: CPython 3.9 looks up the builtins in the globals of another module at every call into it; 3.10 is off by a few.
EMPTY = 0 if sys.version_info >= (3, 11) else 300


def loop(c, iterations=100_000):
    with c:
        length = truecount.known_loop(iterations)
    return c.count - length


def test_a_loop_of_known_length_counts_the_same_every_time():
    measured = [truecount.measure(truecount.known_loop, 100_000) for _ in range(10)]
    assert len({m.count for m in measured}) == 1
    # A call from Python to C and back.
    assert 0 < measured[0].count - measured[0].result < 20_000


def test_blocks_count_it_too():
    c = truecount.counter()
    for _ in range(64):
        loop(c)
    counts = sorted(loop(c) for _ in range(10))
    # CPython tries now and then to specialize the call at the block's end.
    assert counts[0] == counts[8]


def test_an_empty_block_is_0():
    c = truecount.counter()

    def empty():
        with c:
            pass
        return c.count

    for _ in range(64):
        empty()
    # CPython tries now and then to specialize the call at the block's end.
    assert sorted(empty() for _ in range(10))[:9] == [0] * 9


def test_an_empty_call_is_0():
    assert truecount.measure(lambda: None).count <= EMPTY


def test_measure_gives_counts_and_the_result():
    measured = truecount.measure(sorted, [3, 1, 2])
    assert measured.result == [1, 2, 3]
    assert measured.count > 50 and len(measured.counts) == 5
    assert "instructions:u" in repr(measured)


def test_setup_is_not_counted():
    def counts(size):
        def setup():
            return ([7] * size,), {}

        return truecount.measure(lambda data: data[0], setup=setup).count

    assert counts(10) == counts(10_000)


def test_blocks_nest():
    c = truecount.counter()
    with c:
        with c:
            truecount.known_loop(1000)
        inner = c.count
    assert c.count > inner > 2000


def test_blocks_that_overlap_give_no_count():
    c = truecount.counter()

    def block():
        with c:
            yield

    first, second = block(), block()
    next(first), next(second)
    with pytest.raises(truecount.NestingError):
        next(first, None)
    assert next(second, None) is None and c.count > 0

    async def task():
        with c:
            await asyncio.sleep(0)

    async def tasks():
        return await asyncio.gather(task(), task(), return_exceptions=True)

    # Threads of the loop's own are none here; the first to begin is the first to end.
    assert [type(result) for result in asyncio.run(tasks())] == [truecount.NestingError, type(None)]
    # One after the other they count, and whoever enters for another does not count as overlapping.
    list(block()), list(block())
    with contextlib.ExitStack() as stack:
        stack.enter_context(c)
        stack.enter_context(c)
    with c:
        pass


def test_a_block_that_fails_has_ended():
    c = truecount.counter()
    for _ in range(3):
        with pytest.raises(KeyError):
            with c:
                with c:
                    truecount.known_loop(1000)
                    raise KeyError
        assert c.count > 2000
    count, nested = c.call(lambda: c.call(truecount.known_loop, (1000,)))
    assert count > nested[0] > nested[1] - EMPTY
    with pytest.raises(truecount.ClosedError):
        with c:
            c.close()
    with pytest.raises(RuntimeError, match="has not begun"):
        truecount.counter().__exit__(None, None, None)


def test_what_runs_later_is_not_counted_as_a_call():
    def generator():
        yield

    async def coroutine():
        pass

    async def both():
        yield

    for function in (generator, coroutine, both, functools.partial(coroutine)):
        with pytest.raises(TypeError, match="runs none of its code"):
            truecount.measure(function)
    with pytest.raises(TypeError, match="runs none of its code"):
        truecount.counted(coroutine)

    class Later:
        async def __call__(self):
            pass

    # Who gives a coroutine has run none of it, whatever it is itself.
    for function in (Later(), lambda: coroutine(), functools.wraps(coroutine)(lambda: coroutine())):
        with warnings.catch_warnings(), pytest.raises(TypeError, match="runs none of its code"):
            warnings.simplefilter("error")
            truecount.measure(function)
    assert truecount.measure(lambda: asyncio.run(coroutine()), runs=1, warmup=0).count > 1000
    for wrong in ({"runs": 0}, {"warmup": -1}):
        with pytest.raises(ValueError):
            truecount.measure(len, "", **wrong)


def test_the_decorator_counts_calls():
    @truecount.counted
    def work(n):
        return sum(range(n))

    assert work(100) == 4950 and work(100) == 4950
    assert len(work.counts) == 2 and work.counts[-1] > 100

    @truecount.counted("instructions:u")
    def other():
        return 1

    assert other() == 1 and len(other.counts) == 1


def test_the_decorator_counts_what_classes_have():
    class Things:
        @truecount.counted
        @staticmethod
        def static(n):
            return sum(range(n))

        @truecount.counted
        @classmethod
        def of_class(cls, n):
            return cls, n

        @truecount.counted("instructions:u")
        def method(self, n):
            return n

    assert Things.static(100) == 4950 == Things().static(100) and len(Things.static.counts) == 2
    assert Things.of_class(3) == (Things, 3) and len(Things.of_class.counts) == 1
    assert Things().method(4) == 4 and len(Things.method.counts) == 1
    for wrong in (property(len), None, 5):
        with pytest.raises(TypeError, match="counted decorates functions"):
            truecount.counted(wrong)


def test_what_setup_gives_is_looked_at():
    assert truecount.measure(sorted, setup=lambda: (([2, 1],), {"reverse": True})).result == [2, 1]
    assert truecount.measure(sorted, [2, 1], setup=lambda: None).result == [1, 2]
    for wrong in (5, "ab", [2, 1], (1, 2, 3), ([1], 2)):
        with pytest.raises(TypeError, match="setup gives None or"):
            truecount.measure(sorted, setup=lambda: wrong)
    # The function's own arguments of such names.
    assert truecount.measure(dict, function=1, self=2).result == {"function": 1, "self": 2}


def test_texts_are_in_the_words_of_python():
    c = truecount.counter()
    texts = []
    for wrong in (
        lambda: truecount.counter("instructions:u,page-faults"),
        lambda: truecount.counter("L1-dcache-load-misses:u"),
        lambda: c.between(2**64 - 1, 0),
    ):
        with pytest.raises(truecount.Error) as raised:
            wrong()
        texts.append(str(raised.value))
    assert not any(word in " ".join(texts) for word in ("CounterSet", "truecount_", "TRUECOUNT_", "`truecount run"))
    if c.source == "virtual":
        assert "python -m truecount -e branches:u" in texts[1]
        with pytest.raises(RuntimeError, match="under the virtual PMU already"):
            truecount.run_virtual([sys.executable, "-c", ""])
    with pytest.raises(TypeError, match="a list"):
        truecount.run_virtual("true")


def test_what_a_counter_says_of_itself():
    c = truecount.Counter("instructions:u")
    assert (c.name, c.unit) == ("instructions:u", "count")
    assert c.source in ("virtual", "hardware")
    assert c.total() > 0
    c.check()


def test_wrong_use_raises():
    with pytest.raises(truecount.EventError) as raised:
        truecount.counter("no-such-event")
    assert raised.value.hint and raised.value.status == 1
    c = truecount.counter()
    errors = []

    def elsewhere():
        for use in (c.read, c.close, lambda: c.name, lambda: c.__enter__()):
            try:
                use()
            except truecount.ThreadError as error:
                errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(errors) == 4 and "another thread" in str(errors[0])
    c.close()
    for use in (c.read, c.close, c.total, lambda: c.name):
        with pytest.raises(truecount.ClosedError):
            use()
    with pytest.raises(ValueError):
        truecount.Counter("a\0b")


def test_the_child_of_a_fork_gets_an_error():
    c = truecount.counter()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            c.read()
        except truecount.ForkedError:
            status = 0 if truecount.counter().read() else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@truecount.counted
def sorting(n):
    return sorted(range(n, 0, -1))


def measured_in_a_child(n):
    sorting(n)
    # Those of the parent are not this process's.
    return truecount.measure(truecount.known_loop, n).count, sorting.counts[-1]


def test_threads_of_a_pool_have_counters_of_their_own():
    c = truecount.counter()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        counts = [m.count for m in pool.map(lambda n: truecount.measure(truecount.known_loop, n), [10_000] * 6)]
        before = len(sorting.counts)
        list(pool.map(sorting, [100] * 6))
        with pytest.raises(truecount.ThreadError):
            pool.submit(loop, c).result()
    # Another thread may come between: the least of five calls has little of that.
    assert max(counts) - min(counts) < 1000 and min(counts) > 20_000
    assert len(sorting.counts) == before + 6

    async def elsewhere():
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: truecount.measure(truecount.known_loop, 10_000).count)

    assert 20_000 < asyncio.run(elsewhere()) < 40_000


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_count(method):
    sorting(10)
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(measured_in_a_child, [10_000] * 4)
    assert len({count for count, _ in found}) == 1 and found[0][0] > 20_000
    assert all(count > 1000 for _, count in found)


def test_regions_are_recorded(tmp_path):
    with truecount.regions(tmp_path / "out") as region:
        with region("outer"):
            with region("inner"):
                truecount.known_loop(100)
    assert b"inner" in (tmp_path / "out.mm_profdata").read_bytes()
    with pytest.raises(truecount.ClosedError):
        with region("late"):
            pass
    with pytest.raises(truecount.RecorderError):
        truecount.regions(tmp_path / "none" / "out")
    for wrong in ("a\0b", "\udcff"):
        with pytest.raises(ValueError):
            truecount.regions(tmp_path / wrong)


def test_regions_that_overlap_are_an_error(tmp_path):
    with truecount.regions(tmp_path / "out") as region:
        first, second = region("first"), region("second")
        first.__enter__()
        second.__enter__()
        with pytest.raises(truecount.NestingError):
            first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        with region("third"):
            pass
        errors = []

        def ends(one):
            try:
                one.__exit__(None, None, None)
            except truecount.NestingError as error:
                errors.append(error)

        other = region("other")
        other.__enter__()
        thread = threading.Thread(target=ends, args=(other,))
        thread.start()
        thread.join()
        assert len(errors) == 1


def test_a_short_function_of_c_costs_something():
    text = "x" * 100
    assert truecount.measure(text.upper).count > truecount.measure(gc.isenabled).count
    assert truecount.measure(gc.isenabled).count <= EMPTY
    assert truecount.measure(functools.lru_cache(len), "x").count > 0


def test_the_fixture_measures(truecount):
    assert truecount(lambda: 7) == 7
    assert truecount.measured.count <= EMPTY


def test_the_fixture_has_the_interface_of_pytest_benchmark(benchmark):
    assert benchmark.pedantic(sorted, args=([2, 1],), rounds=3, warmup_rounds=20) == [1, 2]
    assert len(benchmark.measured.counts) == 3


def test_the_fixture_passes_every_name_on(truecount):
    assert truecount(dict, function=1, event=2) == {"function": 1, "event": 2}


@pytest.mark.truecount(max_instructions=10_000_000)
def test_a_marker_alone_counts_the_test():
    assert sum(range(10)) == 45
