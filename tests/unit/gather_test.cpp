#include "espalier/read/gather.h"

#include <map>
#include <string>
#include <vector>

#include "support/feed.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

using Extents = std::vector<Extent>;

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

// A Gather that keeps its bytes, like the machines.
class Collector {
 public:
  Collector(Extents wanted, ByteSpan file)
      : file_(file), wanted_(wanted), gather_(std::move(wanted)) {}

  std::span<const Extent> needs() const { return gather_.needs(); }
  Result<void> feed(const Extent& extent, ByteSpan bytes) {
    return gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan got) -> Result<void> {
      ++calls_[i];
      const ByteSpan expected = testing::bytes_at(file_, wanted_[i]);
      if (!std::equal(got.begin(), got.end(), expected.begin(), expected.end())) {
        return fail(ErrorCode::kChunkCorrupt, "wrong bytes");
      }
      return {};
    });
  }
  // Whether each extent came, once.
  bool has_all() const {
    if (calls_.size() != wanted_.size()) return false;
    return std::all_of(calls_.begin(), calls_.end(), [](auto& call) { return call.second == 1; });
  }

 private:
  ByteSpan file_;
  Extents wanted_;
  Gather gather_;
  std::map<std::size_t, int> calls_;
};

TEST_CASE("A gather wants neighbours joined, and the rest of them") {
  Gather gather({{0, 10, 5}, {0, 15, 5}, {0, 30, 1}, {1, 31, 4}});
  CHECK(Extents(gather.needs().begin(), gather.needs().end()) ==
        Extents{{0, 10, 10}, {0, 30, 1}, {1, 31, 4}});
  const auto file = counting(100);
  const auto ignore = [](std::size_t, ByteSpan) { return Result<void>(); };
  CHECK(gather.feed({0, 12, 2}, testing::bytes_at(file, {0, 12, 2}), ignore));
  CHECK(Extents(gather.needs().begin(), gather.needs().end()) ==
        Extents{{0, 10, 2}, {0, 14, 6}, {0, 30, 1}, {1, 31, 4}});
  CHECK(gather.feed({0, 0, 100}, file, ignore));
  CHECK(Extents(gather.needs().begin(), gather.needs().end()) == Extents{{1, 31, 4}});
  CHECK_FALSE(gather.is_complete());
  CHECK(gather.feed({1, 0, 100}, file, ignore));
  CHECK(gather.is_complete());
}

TEST_CASE("An extent is complete once, for any pieces") {
  const auto file = counting(700);
  testing::Random random(5);
  for (int round = 0; round < 300; ++round) {
    Extents wanted;
    std::uint64_t at = random.below(20);
    while (at < 600) {
      const std::uint64_t length = 1 + random.below(90);
      wanted.push_back({0, at, length});
      at += length + (random.one_in(2) ? 0 : random.below(40));
    }
    Collector whole(wanted, file);
    CHECK(testing::feed_whole(whole, file));
    CHECK(whole.has_all());
    Collector bytewise(wanted, file);
    CHECK(testing::feed_steps(bytewise, file, 1));
    CHECK(bytewise.has_all());
    Collector scrambled(wanted, file);
    CHECK(testing::feed_scrambled(scrambled, file, random));
    CHECK(scrambled.has_all());
  }
}

TEST_CASE("Extents that overlap all get their bytes") {
  const auto file = counting(700);
  Gather joined({{0, 10, 20}, {0, 15, 5}, {0, 25, 10}, {1, 0, 4}, {1, 0, 4}});
  CHECK(Extents(joined.needs().begin(), joined.needs().end()) == Extents{{0, 10, 25}, {1, 0, 4}});
  testing::Random random(6);
  for (int round = 0; round < 300; ++round) {
    Extents wanted;
    for (std::size_t i = 1 + random.below(30); i > 0; --i) {
      wanted.push_back({0, random.below(600), 1 + random.below(random.one_in(3) ? 100 : 8)});
      if (random.one_in(4)) wanted.push_back(wanted.back());
    }
    std::sort(wanted.begin(), wanted.end(),
              [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    Collector whole(wanted, file);
    CHECK(testing::feed_whole(whole, file));
    CHECK(whole.has_all());
    Collector bytewise(wanted, file);
    CHECK(testing::feed_steps(bytewise, file, 1));
    CHECK(bytewise.has_all());
    Collector scrambled(wanted, file);
    CHECK(testing::feed_scrambled(scrambled, file, random));
    CHECK(scrambled.has_all());
  }
}

TEST_CASE("A driver's mistakes are errors, and change nothing") {
  const auto file = counting(100);
  Gather gather({{0, 10, 5}});
  const auto never = [](std::size_t, ByteSpan) -> Result<void> {
    FAIL("called");
    return {};
  };
  auto fed = gather.feed({0, 10, 4}, testing::bytes_at(file, {0, 10, 5}), never);
  REQUIRE_FALSE(fed);
  CHECK(fed.error().code == ErrorCode::kInvalidArgument);
  fed = gather.feed({0, ~std::uint64_t{0} - 3, 5}, testing::bytes_at(file, {0, 10, 5}), never);
  CHECK_FALSE(fed);
  CHECK(gather.feed({0, 15, 5}, testing::bytes_at(file, {0, 15, 5}), never));
  CHECK(gather.feed({1, 10, 5}, testing::bytes_at(file, {0, 10, 5}), never));
  CHECK(gather.feed({0, 10, 0}, {}, never));
  CHECK_FALSE(gather.is_complete());
}

TEST_CASE("A gather of nothing is complete") {
  CHECK(Gather().is_complete());
  CHECK(Gather({{0, 5, 0}}).is_complete());
}

TEST_CASE("The first error ends a feed") {
  const auto file = counting(100);
  Gather gather({{0, 10, 5}, {0, 20, 5}});
  int calls = 0;
  const auto fed = gather.feed({0, 0, 100}, file, [&](std::size_t, ByteSpan) -> Result<void> {
    ++calls;
    return fail(ErrorCode::kChunkCorrupt, "no");
  });
  CHECK_FALSE(fed);
  CHECK(calls == 1);
}

}  // namespace
}  // namespace espalier
