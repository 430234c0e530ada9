"""Writes scipy_fixtures.txt: what SciPy says of samples of every kind that the crate handles.

    python3 -m venv v && v/bin/pip install scipy==1.17.1 numpy==2.4.6
    v/bin/python crates/stats/tests/scipy_fixtures.py > crates/stats/tests/scipy_fixtures.txt

One case a line: kind, expected values, then the samples after bars. Numbers are Python's shortest
round-trip form. Without ties and zeros the exact distribution is SciPy's own (method="exact");
with them it is the exhaustive permutation test (every sign pattern, every assignment).
"""
import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20240229)


def line(kind, expected, *samples):
    fields = " ".join(repr(float(e)) for e in expected)
    print(kind, fields, *("| " + " ".join(repr(float(v)) for v in s) for s in samples))


def wilcoxon(d):
    d = np.asarray(d, float)
    nz = d[d != 0]
    n = len(nz)
    ranks = stats.rankdata(np.abs(nz))
    w_plus = ranks[nz > 0].sum()
    ties = len(set(np.abs(nz))) < n
    if n > 25:
        method = "asymptotic"
    elif ties:
        method = stats.PermutationMethod(n_resamples=np.inf)
    else:
        method = "exact"
    r = stats.wilcoxon(nz, zero_method="wilcox", correction=False, method=method)
    i, j = np.triu_indices(len(d))
    line("wilcoxon", [w_plus, r.pvalue, np.median((d[i] + d[j]) / 2)], d)


def mannwhitney(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    ties = len(set(a) | set(b)) < len(a) + len(b)
    if len(a) + len(b) > 50:
        method = "asymptotic"
    elif ties:
        method = stats.PermutationMethod(n_resamples=np.inf)
    else:
        method = "exact"
    r = stats.mannwhitneyu(b, a, use_continuity=True, method=method)
    line("mannwhitney", [r.statistic, r.pvalue, np.median(np.subtract.outer(b, a))], a, b)


print(f"# SciPy {scipy.__version__}, NumPy {np.__version__}; written by scipy_fixtures.py")
for n in (1, 2, 5, 6, 7, 10, 15, 20, 25):
    for shift in (0.0, 0.6):
        wilcoxon(rng.normal(shift, 1, n).round(6))
for n in (4, 6, 8, 10, 12):  # ties and zeros, small integers
    for shift in (0, 1):
        d = rng.integers(-3, 4, n) + shift
        if np.any(d != 0):
            wilcoxon(d)
for n in (26, 30, 60, 200):
    wilcoxon(rng.normal(0.3, 1, n).round(6))
    wilcoxon(rng.integers(-4, 6, n))
for m, n in ((1, 1), (3, 3), (4, 4), (5, 9), (8, 8), (12, 20), (25, 25)):
    for shift in (0.0, 0.9):
        mannwhitney(rng.normal(0, 1, m).round(6), rng.normal(shift, 1, n).round(6))
for m, n in ((3, 3), (4, 4), (5, 6), (7, 7)):
    for shift in (0, 1):
        mannwhitney(rng.integers(0, 4, m), rng.integers(0, 4, n) + shift)
for m, n in ((30, 30), (26, 60), (200, 100)):
    mannwhitney(rng.normal(0, 1, m).round(6), rng.normal(0.4, 1, n).round(6))
    mannwhitney(rng.integers(0, 5, m), rng.integers(0, 6, n))
for n in (1, 2, 3, 6, 11, 40):
    v = rng.lognormal(3, 1, n).round(6)
    line(
        "summary",
        [
            np.median(v),
            1.4826 * stats.median_abs_deviation(v),
            np.quantile(v, 0.25),
            np.quantile(v, 0.75),
        ],
        v,
    )
