/* Calls and returns, and little else. */
static unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) { return fib(38) != 39088169; }
