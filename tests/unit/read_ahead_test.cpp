#include "files/open/read_ahead.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "files/os/huge_pages.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Records prefetches, and reads nothing.
class PrefetchLog : public Source {
 public:
  std::uint64_t size() const override { return ~std::uint64_t{0}; }
  Result<ByteSpan> read(const Extent&, MutableByteSpan) const override { return ByteSpan(); }
  void expect(ReadPattern pattern) const override { pattern_ = pattern; }
  void prefetch(const Extent& extent) const override {
    const std::lock_guard lock(mutex_);
    log_.push_back(extent);
  }

  std::vector<Extent> log() const { return log_; }
  ReadPattern pattern() const { return pattern_; }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<Extent> log_;
  mutable ReadPattern pattern_ = ReadPattern::kScattered;
};

TEST_CASE("Close extents are fetched at once, and nothing between distant ones") {
  const PrefetchLog source;
  ReadAhead ahead(source);
  ahead.add({0, 1000, 500});
  ahead.add({0, 1536, 100});       // a tensor's alignment after it
  ahead.add({0, 1636, 0});         // nothing
  ahead.add({0, 1636 + 4095, 1});  // just near enough
  ahead.add({0, 20'000, 10});      // too far
  ahead.add({0, 5, 10});           // before it
  ahead.add({1, 15, 10});          // in another file
  ahead.start();
  CHECK(source.log() ==
        std::vector<Extent>{{0, 1000, 4732}, {0, 20'000, 10}, {0, 5, 10}, {1, 15, 10}});
}

TEST_CASE("Runs end at a MiB, and one long extent stays whole") {
  const PrefetchLog source;
  ReadAhead ahead(source);
  ahead.add({0, 0, kMiB - 10});
  ahead.add({0, kMiB - 10, 10});
  ahead.add({0, kMiB, 1});
  ahead.add({0, kMiB + 1, 3 * kMiB});
  ahead.start();
  CHECK(source.log() == std::vector<Extent>{{0, 0, kMiB}, {0, kMiB, 1}, {0, kMiB + 1, 3 * kMiB}});
}

TEST_CASE("Fetching stays eight MiB ahead of use, and leaves nothing out") {
  const PrefetchLog source;
  ReadAhead ahead(source);
  for (std::uint64_t i = 0; i < 100; ++i) ahead.add({0, i * kMiB, kMiB});
  ahead.start();
  CHECK(source.log().size() == 8);
  ahead.use(kMiB);
  CHECK(source.log().size() == 9);
  ahead.use(3 * kMiB);
  CHECK(source.log().size() == 12);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 24; ++i) ahead.use(kMiB);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Extent> log = source.log();
  std::sort(log.begin(), log.end(),
            [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  REQUIRE(log.size() == 100);
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(log[i] == Extent{0, i * kMiB, kMiB});
}

TEST_CASE("Long stretches are left to the system, as long as they last") {
  for (const bool has_gaps : {false, true}) {
    const PrefetchLog source;
    {
      ReadAhead ahead(source);
      for (std::uint64_t i = 0; i < 300; ++i) {
        ahead.add({0, i * kMiB + (has_gaps ? i / 100 * kMiB : 0), kMiB});
      }
      ahead.start();
      ahead.use(kMiB);
      CHECK(source.log().empty() == !has_gaps);
      CHECK((source.pattern() == ReadPattern::kSequential) == !has_gaps);
    }
    CHECK(source.pattern() == ReadPattern::kScattered);
  }
  const PrefetchLog source;
  ReadAhead nothing(source);
  nothing.start();
  CHECK(source.pattern() == ReadPattern::kScattered);
}

TEST_CASE("Memory for tensors of any size that the machine has") {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, kMiB, 5 * kMiB + 3}) {
    const auto memory = large_memory(size);
    REQUIRE(memory);
    std::fill_n(memory.get(), size, std::byte{7});
  }
}

}  // namespace
}  // namespace espalier
