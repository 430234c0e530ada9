# needs: python3
# bound: 1.8
export PYTHONHASHSEED=0
exec "$(< interpreter)" -S -c '
words = ["".join(chr(97 + (i * k) % 26) for k in range(3, 11)) for i in range(5000)]
index = {}
for turn in range(60):
    for at, word in enumerate(words):
        index.setdefault(word[turn % 5:], []).append(at)
    text = " ".join(sorted(index)[:2000]).upper().replace("AB", "ba").split("C")
print(len(index), len(text), sum(map(len, index.values())))
'
