#include <cstdio>
#include <truecount.hpp>

int main()
{
    truecount::counter c("instructions:u");          // throws truecount::error: cause and hint
    const auto cost = c([] { std::puts("hello"); }); // less what reading costs
    std::printf("%llu instructions\n", static_cast<unsigned long long>(cost));
}
