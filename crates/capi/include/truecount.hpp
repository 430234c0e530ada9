// truecount.hpp: truecount.h for C++11 and newer, header only.
//
//     truecount::counter c("instructions:u");      // throws truecount::error
//     auto region = c.start();
//     work();
//     std::cout << region.count() << '\n';
#ifndef TRUECOUNT_HPP
#define TRUECOUNT_HPP

#include <truecount.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace truecount {

namespace detail {
// What an object has that was moved from: a handle of which every use is an error.
inline void closed(const truecount_counter *&handle) noexcept { truecount_open(nullptr, &handle); }
inline void closed(const truecount_group *&handle) noexcept { truecount_group_open(nullptr, &handle); }
inline void closed(const truecount_recorder *&handle) noexcept { truecount_recorder_open(nullptr, nullptr, &handle); }
template <class T> T taken(T &handle) noexcept {
    const T before = handle;
    closed(handle);
    return before;
}
// A text that C would take for a shorter one.
inline const char *whole(const std::string &text) {
    if (text.find('\0') != std::string::npos)
        throw std::invalid_argument("truecount: the text has a NUL character, which no event or path has");
    return text.c_str();
}
} // namespace detail

// What failed, and what to do about it.
class error : public std::runtime_error {
public:
    explicit error(int status)
        : std::runtime_error(std::string(truecount_error_message()) + "; " + truecount_error_hint()), status_(status) {}
    truecount_status status() const noexcept { return static_cast<truecount_status>(status_); }

private:
    int status_;
};

inline void check(int status) {
    if (status != TRUECOUNT_OK)
        throw error(status);
}

// Whether instructions:u can be counted here.
inline bool available() { return truecount_available() != 0; }

// A counter of the thread that made it.
class counter {
public:
    // A region that began with start().
    class region {
    public:
        // What was counted since it began, less what reading costs.
        // Throws where the counter has been destroyed since then.
        __attribute__((always_inline)) std::uint64_t count() const {
            const std::uint64_t end = truecount_read(handle_);
            return elapsed(handle_, overhead_, start_, end);
        }

    private:
        friend class counter;
        region(const truecount_counter *handle, std::uint64_t overhead) : handle_(handle), overhead_(overhead), start_(0) {}
        // The handle, which is known for what it is for ever; the counter may be gone.
        const truecount_counter *handle_;
        std::uint64_t overhead_;
        std::uint64_t start_;
    };

    explicit counter(const std::string &event) : handle_(nullptr), of_regions_(0), of_reads_(0), of_calls_(0) {
        check(truecount_open(detail::whole(event), &handle_));
        try {
            std::uint64_t regions = UINT64_MAX, reads = UINT64_MAX, calls = UINT64_MAX;
            for (int i = 0; i < 16; i++) {
                const std::uint64_t count = start().count(), begin = read(), end = read(), call = called([] {});
                const std::uint64_t between = elapsed(handle_, 0, begin, end);
                regions = count < regions ? count : regions;
                reads = between < reads ? between : reads;
                calls = call < calls ? call : calls;
            }
            of_regions_ = regions;
            of_reads_ = reads;
            of_calls_ = calls;
        } catch (...) {
            // No destructor runs for what was not made.
            truecount_close(handle_);
            throw;
        }
    }
    counter(counter &&other) noexcept
        : handle_(detail::taken(other.handle_)), of_regions_(other.of_regions_), of_reads_(other.of_reads_),
          of_calls_(other.of_calls_) {}
    // Closes what it had; that of another thread stays open until that thread ends.
    counter &operator=(counter &&other) noexcept {
        if (this != &other) {
            truecount_close(handle_);
            handle_ = detail::taken(other.handle_);
            of_regions_ = other.of_regions_;
            of_reads_ = other.of_reads_;
            of_calls_ = other.of_calls_;
        }
        return *this;
    }
    counter(const counter &) = delete;
    counter &operator=(const counter &) = delete;
    ~counter() { truecount_close(handle_); }

    __attribute__((always_inline)) region start() const {
        region begun(handle_, of_regions_);
        begun.start_ = truecount_read(handle_);
        return begun;
    }
    __attribute__((always_inline)) std::uint64_t read() const { return truecount_read(handle_); }
    // Between two reads, less what reading costs.
    std::uint64_t between(std::uint64_t start, std::uint64_t end) const {
        return elapsed(handle_, of_reads_, start, end);
    }
    // What f() costs.
    template <class F> std::uint64_t operator()(F &&f) const {
        const std::uint64_t count = called(std::forward<F>(f));
        return count > of_calls_ ? count - of_calls_ : 0;
    }
    // Throws where reads are not right.
    void check_right() const { truecount::check(truecount_check(handle_)); }
    std::string name() const { return text(truecount_name(handle_)); }
    std::string unit() const { return text(truecount_unit(handle_)); }
    std::string source() const { return text(truecount_source(handle_)); }
    bool exact() const { return truecount_is_exact(handle_) != 0; }
    const truecount_counter *get() const noexcept { return handle_; }

private:
    // What calling f() counts, with what reading costs: in a function of its own, where what stands around the call changes
    // nothing of the code between the reads.
    template <class F> __attribute__((noinline)) std::uint64_t called(F &&f) const {
        const truecount_counter *const handle = handle_;
        const std::uint64_t start = truecount_read(handle);
        std::forward<F>(f)();
        const std::uint64_t end = truecount_read(handle);
        return elapsed(handle, 0, start, end);
    }
    static std::uint64_t elapsed(const truecount_counter *handle, std::uint64_t overhead, std::uint64_t start, std::uint64_t end) {
        std::uint64_t count = 0;
        truecount::check(truecount_between(handle, start, end, &count));
        return count > overhead ? count - overhead : 0;
    }
    static std::string text(const char *of) {
        if (!of)
            throw error(truecount_error_status());
        return of;
    }
    const truecount_counter *handle_;
    // What an empty region, two reads and a call of nothing count: compilers make other code of each.
    std::uint64_t of_regions_, of_reads_, of_calls_;
};

// Several events of the thread that made it.
class group {
public:
    explicit group(const std::string &events) : handle_(nullptr) { check(truecount_group_open(detail::whole(events), &handle_)); }
    group(group &&other) noexcept : handle_(detail::taken(other.handle_)) {}
    group &operator=(group &&other) noexcept {
        if (this != &other) {
            truecount_group_close(handle_);
            handle_ = detail::taken(other.handle_);
        }
        return *this;
    }
    group(const group &) = delete;
    group &operator=(const group &) = delete;
    ~group() { truecount_group_close(handle_); }

    std::size_t size() const { return truecount_group_len(handle_); }
    std::string name(std::size_t event) const {
        const char *name = truecount_group_name(handle_, event);
        if (!name)
            throw error(truecount_error_status());
        return name;
    }
    void start() { check(truecount_group_start(handle_)); }
    // A count for each event; TRUECOUNT_INVALID for one that was not on the PMU.
    std::vector<std::uint64_t> stop() {
        std::vector<std::uint64_t> counts(size());
        check(truecount_group_stop(handle_, counts.data(), counts.size()));
        return counts;
    }

private:
    const truecount_group *handle_;
};

// Records regions into a region profile.
class recorder {
public:
    // A region that ends when it goes out of scope.
    class region {
    public:
        region(const recorder &r, const char *label) : recorder_(r.handle_) {
            check(truecount_region_begin(recorder_, label));
        }
        region(const region &) = delete;
        region &operator=(const region &) = delete;
        ~region() { truecount_region_end(recorder_); }

    private:
        const truecount_recorder *recorder_;
    };

    explicit recorder(const std::string &path, const std::string &events = "instructions:u") : handle_(nullptr) {
        check(truecount_recorder_open(detail::whole(path), detail::whole(events), &handle_));
    }
    recorder(recorder &&other) noexcept : handle_(detail::taken(other.handle_)) {}
    recorder &operator=(recorder &&other) noexcept {
        if (this != &other) {
            truecount_recorder_close(handle_);
            handle_ = detail::taken(other.handle_);
        }
        return *this;
    }
    recorder(const recorder &) = delete;
    recorder &operator=(const recorder &) = delete;
    ~recorder() { truecount_recorder_close(handle_); }
    void flush() { check(truecount_recorder_flush(handle_)); }
    // As the destructor, but throws where something could not be written.
    void close() { check(truecount_recorder_close(handle_)); }

private:
    const truecount_recorder *handle_;
};

} // namespace truecount

#endif
