// Counts in a test of Catch2 (version 2).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <truecount.hpp>
TEST_CASE("a loop of known length") {
    truecount::counter c("instructions:u");
    const auto loop = [] { truecount_known_loop(1000); };
    loop();
    const auto cost = c(loop);
    CHECK(cost >= 2000);
    CHECK(cost <= 2300);
    CHECK(c([] {}) == 0);
}
