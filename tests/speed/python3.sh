# needs: python3
# bound: 2.0
export PYTHONHASHSEED=0
exec "$(< interpreter)" -S -c '
import json, re
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(29))
d = {}
for i in range(1500000): d[str(i % 5000)] = d.get(str(i % 5000), 0) + i
print(sum(d.values()), len(json.dumps(json.loads(json.dumps(d)))))
print(len(re.findall(r"[a-f]+\d", " ".join(map(hex, range(300000))))))
class P:
    def __init__(self, x): self.x = x
    def __lt__(self, o): return self.x < o.x
print(sorted(P(i * 7919 % 10007) for i in range(200000))[5].x)
'
