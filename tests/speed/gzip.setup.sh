python3 - > in <<'P'
import random
r = random.Random(1)
words = ["".join(r.choice("etaoinshrdlu") for _ in range(r.randint(2, 9))) for _ in range(3000)]
for _ in range(400000):
    print(" ".join(r.choices(words, k=8)))
P
