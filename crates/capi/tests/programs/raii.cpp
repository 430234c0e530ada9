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
        const std::uint64_t start = c.read(), end = c.read();
        const auto named = [] {};
        std::cout << "empty " << nothing << ' ' << c([] {}) << ' ' << c(named) << ' ' << c([&] {}) << ' '
                  << c.between(start, end) << '\n';
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
        // Kept in containers, given by functions, exchanged, assigned over.
        std::vector<truecount::counter> several;
        for (int i = 0; i < 5; i++)
            several.push_back(truecount::counter(event));
        several.erase(several.begin() + 1);
        std::swap(several.front(), several.back());
        std::uint64_t length = 0;
        for (const auto &one : several)
            length += one([&] { truecount_known_loop(1000); }) / 2000;
        several[0] = std::move(several[1]);
        truecount::counter &itself = several[0];
        itself = std::move(several[0]);
        std::cout << "several: " << length << status([&] { several[0].name(); }) << status([&] { several[1].name(); }) << '\n';
        truecount::group first(event), second(event);
        first = std::move(second);
        truecount::group third(std::move(first));
        third.start();
        std::cout << "groups: " << third.stop().size() << first.size() << status([&] { first.start(); })
                  << status([&] { second.stop(); }) << '\n';
        if (argc > 2) {
            const std::string path = argv[2];
            auto made = [&](const char *name) { return truecount::recorder(path + name, event); };
            truecount::recorder left = made("1"), right = made("2");
            left = std::move(right);
            truecount::recorder::region all(left, "all");
            std::cout << "recorders: " << status([&] { left.flush(); }) << status([&] { right.flush(); }) << '\n';
        }
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
