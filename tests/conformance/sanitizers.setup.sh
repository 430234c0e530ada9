cat > race.c <<'X'
#include <pthread.h>
#include <stdio.h>
int x; pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; int y;
void *f(void *a) { for (int i = 0; i < 1000; i++) { x++; pthread_mutex_lock(&m); y++; pthread_mutex_unlock(&m); } return a; }
int main(void) { pthread_t t[4]; for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, f, 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0); printf("%d\n", y); return 0; }
X
cat > bad.c <<'X'
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **a) { char *p = malloc(8); int i = 1 << 30; p[0] = n; i += i * n; printf("%d\n", p[0]); fflush(stdout);
  if (n > 1) { free(p); return p[0]; } volatile char v = p[8 + n]; return v; }
X
for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    for s in thread address undefined,float-divide-by-zero; do
        $cc -g -O1 -fsanitize=$s -pthread -o race-$cc-${s%%,*} race.c || rm -f race-$cc-${s%%,*}
        $cc -g -O1 -fsanitize=$s -pthread -o bad-$cc-${s%%,*} bad.c || rm -f bad-$cc-${s%%,*}
    done
done
[ "$(ls race-* bad-* | wc -l)" -gt 6 ]
