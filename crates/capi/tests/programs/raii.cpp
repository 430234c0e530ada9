// The C++ header: regions, groups, errors.
#include <iostream>
#include <memory>
#include <thread>
#include <truecount.hpp>

// The status of the error that a use gives; -1 for none.
template <class F> static int status(F use) {
    try {
        use();
        return -1;
    } catch (const truecount::error &e) {
        return e.status();
    }
}

int main(int argc, char **argv) {
    const std::string event = argc > 1 ? argv[1] : "instructions:u";
    try {
        truecount::counter c(event);
        auto empty = c.start();
        const std::uint64_t nothing = empty.count();
        std::cout << "empty " << nothing << " " << c([] {}) << '\n';
        for (int i = 0; i < 10; i++) {
            std::uint64_t length = 0;
            const auto count = c([&] { length = truecount_known_loop(100000); });
            std::cout << "loop " << count - length << '\n';
        }
        std::cout << c.name() << ' ' << c.source() << ' ' << c.exact() << '\n';
        std::thread([&] {
            try {
                c.between(c.read(), c.read());
                std::cout << "no error\n";
            } catch (const truecount::error &e) {
                std::cout << "thread: " << (e.status() == TRUECOUNT_THREAD) << ' ' << e.what() << '\n';
            }
        }).join();
        truecount::counter moved(std::move(c));
        moved.check_right();
        std::cout << "moved " << moved([] {}) << '\n';
        std::cout << "moved from: " << status([&] { c.name(); }) << status([&] { c([] {}); }) << status([&] { c.check_right(); })
                  << status([&] { c.start().count(); }) << '\n';
        std::unique_ptr<truecount::counter> gone(new truecount::counter(event));
        auto region = gone->start();
        gone.reset();
        // An exception in the middle of a region leaves the counter right.
        try {
            (*std::make_shared<truecount::counter>(event))([] { throw 1; });
        } catch (int) {
            std::cout << "thrown: " << (moved([] {}) < 1000) << '\n';
        }
        std::cout << "destroyed: " << status([&] { region.count(); }) << '\n';
    } catch (const truecount::error &e) {
        std::cout << "no counter: " << e.what() << '\n';
        return 3;
    }
    try {
        // C would take it for instructions:u.
        truecount::counter c(std::string("instructions:u\0x", 16));
    } catch (const std::invalid_argument &) {
        std::cout << "NUL: 1\n";
    }
    try {
        truecount::counter c("no-such-event");
    } catch (const truecount::error &e) {
        std::cout << "event: " << (e.status() == TRUECOUNT_EVENT) << '\n';
    }
}
