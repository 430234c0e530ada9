python3 - > big.c <<'P'
print("#include <stdio.h>\n")
n = 1000
for i in range(n):
    print(f"""static long f{i}(long a, const long *p, int n)
{{
    long s = a;
    for (int k = 0; k < n; k++) {{
        s += p[k] * {i % 13 + 1};
        if (s & {1 << (i % 17)})
            s ^= {i};
    }}
    return s;
}}""")
print("int main(void)\n{\n    long v[64], s = 1;\n    for (int i = 0; i < 64; i++) v[i] = i * 31;")
for i in range(n):
    print(f"    s = f{i}(s, v, {i % 64});")
print('    printf("%ld\\n", s);\n    return 0;\n}')
P
