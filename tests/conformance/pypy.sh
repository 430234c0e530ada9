# needs: pypy3
# package: pypy3
# time: 120
pypy3 -c 's = 0
for i in range(3000000): s += i % 7
print(s)
import json, re, threading, subprocess, sys
print(json.dumps({"a": [1, 2.5, None]}), re.findall(r"\d+", "a1b22"))
t = [threading.Thread(target=lambda: [x * x for x in range(10000)]) for _ in range(4)]
[x.start() for x in t]; [x.join() for x in t]
print(subprocess.run(["sh", "-c", "echo child; exit 5"]).returncode)
class A:
    def __getattr__(self, n): return n * 2
print(A().ab, 2 ** 300)
try: [][1]
except IndexError as e: print(e)
sys.exit(6)'; echo "status $?"
