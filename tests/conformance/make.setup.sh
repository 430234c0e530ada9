for i in $(seq 12); do printf '#include <math.h>\ndouble f%s(double x) { return sin(x) * %s; }\n' "$i" "$i" > m$i.c; done
{ for i in $(seq 12); do echo "double f$i(double);"; done; echo '#include <stdio.h>'; echo 'int main(void) { double s = 0;'; for i in $(seq 12); do echo "s += f$i(s);"; done; echo 'printf("%.6f\n", s); return 0; }'; } > main.c
printf 'OBJ = main.o %s\nprog: $(OBJ)\n\tgcc -o $@ $^ -lm\n%%.o: %%.c\n\tgcc -O1 -c -o $@ $<\n' "$(for i in $(seq 12); do printf 'm%s.o ' "$i"; done)" > Makefile
