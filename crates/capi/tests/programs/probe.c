#include <truecount.h>

uint64_t probe(const truecount_counter *c)
{
    return truecount_read(c);
}
