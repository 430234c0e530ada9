# needs: python3
# package: python3-numpy
# time: 300
# when: all
# ignore: .
python=$(python3 -c 'import sys; print(sys.executable)'); "$python" -c 'import numpy' 2>/dev/null || python=/usr/bin/python3
export OPENBLAS_NUM_THREADS=2
"$python" -c 'import numpy as n
r = n.random.default_rng(1); a = r.random((150, 150)); b = n.linalg.inv(a)
print(n.allclose(a @ b, n.eye(150)), n.sort(r.integers(0, 1000, 5000))[::500], n.fft.fft(n.arange(64)).real.round(6)[:4])
print(n.linalg.eigvalsh(a @ a.T)[:3].round(6), n.einsum("ij,jk->ik", a, a).sum().round(6), n.arange(10, dtype="f2").cumsum())
print(n.array(["a", "bc"]).astype("U3"), n.datetime64("2020-02-29") + 1)' 2>&1; echo "status $?"
