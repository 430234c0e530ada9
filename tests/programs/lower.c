/* Makes texts lower-case, and asks for their length before every character (with -DFIXED: once).
   docs/finding-what-is-slow.md */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FIXED
static void lower(char *text)
{
    for (size_t i = 0, n = strlen(text); i < n; i++)
        text[i] = tolower(text[i]);
}
#else
static void lower(char *text)
{
    for (size_t i = 0; i < strlen(text); i++)
        text[i] = tolower(text[i]);
}
#endif

static unsigned long checksum(const char *text)
{
    unsigned long sum = 0;
    while (*text)
        sum = sum * 31 + (unsigned char)*text++;
    return sum;
}

int main(int argc, char **argv)
{
    enum { LENGTH = 8000 };
    static char text[LENGTH + 1];
    unsigned long sum = 0;
    for (long n = argc > 1 ? atol(argv[1]) : 1000; n > 0; n--) {
        memset(text, 'A' + (int)(n % 26), LENGTH);
        lower(text);
        sum += checksum(text);
    }
    printf("%lx\n", sum);
    return 0;
}
