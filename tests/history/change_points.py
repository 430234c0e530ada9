#!/usr/bin/env python3
"""Change points against Apache Otava's, on Otava's own data and on simulated steps.

usage: change_points.py CHANGE_POINTS [OTAVA_SOURCES]

CHANGE_POINTS is the example of crates/stats (cargo build --release -p truecount-stats --example change_points). Needs
the package apache-otava, or only its sources, with numpy and scipy. OTAVA_SOURCES is a checkout of Otava: its tests'
CSV files and the TigerBeetle series are in there, not in the package.

With `--fixtures FILE` it writes simulated series and Otava's answers, for crates/stats/tests/otava.rs.
"""

import csv
import glob
import importlib.util
import os
import subprocess
import sys

import numpy
from otava.analysis import compute_change_points

# Otava: "window_len=50, max_pvalue=0.001, min_magnitude=0.0" are its defaults, as ours.
WINDOW, LEVEL, FLOOR = 50, 0.001, 0.0
# A change point that both find may lie this far apart.
NEAR = 2


def otava(series, window=WINDOW, level=LEVEL, floor=FLOOR):
    found, _ = compute_change_points(series, window_len=window, max_pvalue=level, min_magnitude=floor)
    return [int(point.index) for point in found]


def ours(program, all_series):
    lines = [" ".join(map(str, (window, level, floor, *map(repr, map(float, series)))))
             for series, window, level, floor in all_series]
    out = subprocess.run([program], input="\n".join(lines) + "\n", check=True, text=True, stdout=subprocess.PIPE).stdout
    return [[int(word) for word in line.split()] for line in out.splitlines()]


def apart(one, other):
    """What of `one` has no counterpart in `other`."""
    return [index for index in one if not any(abs(index - near) <= NEAR for near in other)]


def columns(path):
    """The numeric columns of a CSV file, by name."""
    with open(path, newline="", encoding="utf-8") as file:
        text = file.read()
    rows = list(csv.reader(text.splitlines(), delimiter=";" if ";" in text else ","))
    for place, name in enumerate(rows[0]):
        try:
            values = [float(row[place]) for row in rows[1:] if len(row) > place]
        except ValueError:
            continue
        if len(values) > 2 and name.strip().lower() not in ("time", "timestamp"):
            yield name, values


def public(sources):
    """The public series: name, values, window, level, floor."""
    spec = importlib.util.spec_from_file_location("tigerbeetle", os.path.join(sources, "tests/tigerbeetle_test.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    series = module._get_series()
    for window, level, floor in [(50, 0.001, 0.0), (30, 0.01, 0.05), (30, 0.05, 0.05), (50, 0.01, 0.05), (50, 0.0001, 0.0),
                                 (50, 0.00001, 0.05)]:
        yield "tigerbeetle", series, window, level, floor
    for path in sorted(glob.glob(os.path.join(sources, "tests/resources/*.csv")) +
                       glob.glob(os.path.join(sources, "examples/csv/data/*.csv"))):
        for name, values in columns(path):
            yield f"{os.path.basename(path)} {name}", values, WINDOW, LEVEL, FLOOR


def steps(random, count, sigmas):
    """Series of 100 values with one step of so many standard deviations."""
    for _ in range(count):
        at = int(random.integers(30, 71))
        values = 100 + random.normal(size=100)
        values[at:] += sigmas
        yield at, [round(float(value), 3) for value in values]


def simulated(program):
    print(f"{'simulated':12} {'Otava found':>12} {'ours found':>12} {'Otava false':>12} {'ours false':>12}  same points")
    for sigmas in (0, 0.5, 1, 2, 5):
        random = numpy.random.default_rng(20)
        all_steps = list(steps(random, 200, sigmas))
        theirs = [otava(values) for _, values in all_steps]
        mine = ours(program, [(values, WINDOW, LEVEL, FLOOR) for _, values in all_steps])

        def found(answers):
            hit = sum(any(abs(index - at) <= 5 for index in answer) for (at, _), answer in zip(all_steps, answers))
            false = sum(sum(sigmas == 0 or abs(index - at) > 5 for index in answer)
                        for (at, _), answer in zip(all_steps, answers))
            return hit if sigmas else 0, false

        same = sum(not apart(a, b) and not apart(b, a) for a, b in zip(theirs, mine))
        (their_hits, their_false), (my_hits, my_false) = found(theirs), found(mine)
        print(f"{sigmas:>4} sigmas  {their_hits:12} {my_hits:12} {their_false:12} {my_false:12}  {same} of 200")


def fixtures(path):
    """Series whose steps Otava finds, all of them and no other."""
    random = numpy.random.default_rng(7)

    def levels():
        for _ in range(6):
            values = numpy.repeat(random.choice([100, 106, 112, 118], size=4, replace=False), 40) + random.normal(size=160)
            yield [40, 80, 120], [round(float(value), 3) for value in values]

    all_series = [([at], values) for sigmas in (3, 5, 10) for at, values in steps(random, 7, sigmas)] + list(levels())
    with open(path, "w", encoding="utf-8") as file:
        file.write("# Written by tests/history/change_points.py --fixtures: Otava's change points, then the series.\n")
        for planted, values in all_series:
            theirs = otava(values)
            if len(theirs) == len(planted) and not apart(planted, theirs):
                file.write(" ".join(map(str, theirs)) + " : " + " ".join(map(str, values)) + "\n")


def main():
    if sys.argv[1] == "--fixtures":
        fixtures(sys.argv[2])
        return
    program = sys.argv[1]
    if len(sys.argv) > 2:
        all_series = list(public(sys.argv[2]))
        mine = ours(program, [(values, window, level, floor) for _, values, window, level, floor in all_series])
        equal = 0
        for (name, values, window, level, floor), my in zip(all_series, mine):
            theirs = otava(values, window, level, floor)
            missed, more = apart(theirs, my), apart(my, theirs)
            equal += not missed and not more
            note = "same" if not missed and not more else f"only Otava {missed}, only ours {more}"
            print(f"{name} (n {len(values)}, window {window}, p {level}, floor {floor}): Otava {theirs}, ours {my}: {note}")
        print(f"{equal} of {len(all_series)} the same, within {NEAR} values")
    simulated(program)


if __name__ == "__main__":
    main()
