#include "espalier/read/opener.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "support/feed.h"
#include "support/memory_file.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/codec/hash.h"
#include "espalier/format/header.h"
#include "espalier/read/opening_machine.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

Bytes small_file() {
  Tensor tensor;
  tensor.dtype = DType::kU8;
  tensor.shape = {100};
  tensor.data = TensorData::owned(Bytes(100, std::byte{1}));
  auto file = testing::write_file(Value::dict({{"w", Value::tensor(tensor)}}));
  REQUIRE(file);
  return std::move(*file);
}

// An index of more than the 64 KiB that are read at first.
Bytes large_file() {
  Value list = Value::list();
  for (std::int64_t i = 0; i < 5000; ++i) list.add(Value::integer(i));
  auto file = testing::write_file(list);
  REQUIRE(file);
  REQUIRE(file->size() > 2 * kFirstReadBytes - 20000);
  return std::move(*file);
}

// "ok", or the error and its position.
std::string verdict(Opener& opener, Result<void> fed) {
  if (!fed) {
    CHECK(opener.needs().empty());
    const auto again = opener.finish();
    CHECK_FALSE(again);
    return fed.error().describe();
  }
  const auto checkpoint = opener.finish();
  return checkpoint ? "ok" : checkpoint.error().describe();
}

// Feeds a file in several ways, which must all end alike.
std::string verdict(const Bytes& file, const OpenOptions& options = {}) {
  OpenOptions with_size = options;
  with_size.file_size = file.size();
  Opener whole(with_size);
  const std::string expected = verdict(whole, testing::feed_whole(whole, file));
  for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{4096}}) {
    Opener stepwise(with_size);
    CHECK(verdict(stepwise, testing::feed_steps(stepwise, file, step)) == expected);
  }
  testing::Random random(9);
  for (int round = 0; round < 20; ++round) {
    Opener scrambled(with_size);
    CHECK(verdict(scrambled, testing::feed_scrambled(scrambled, file, random)) == expected);
  }
  return expected;
}

bool has_code(const std::string& text, ErrorCode code) {
  return text.find("(code " + std::string(to_string(code))) != std::string::npos;
}

TEST_CASE("A file opens alike, however its bytes arrive") {
  CHECK(verdict(small_file()) == "ok");
  CHECK(verdict(large_file()) == "ok");
}

TEST_CASE("An opener asks for little, and for the rest of a large index only") {
  const Bytes large = large_file();
  Opener opener({.file_size = large.size()});
  REQUIRE(opener.needs().size() == 1);
  CHECK(opener.needs()[0] == Extent{0, 0, kFirstReadBytes});
  CHECK(opener.feed({0, 0, kFirstReadBytes}, testing::bytes_at(large, {0, 0, kFirstReadBytes})));
  REQUIRE(opener.needs().size() == 1);
  CHECK(opener.needs()[0] == Extent{0, kFirstReadBytes, large.size() - kFirstReadBytes});
  CHECK(opener.finish().error().code == ErrorCode::kIncomplete);
  CHECK(testing::feed_steps(opener, large, 1000));
  CHECK(opener.finish());

  const Bytes small = small_file();
  Opener whole({.file_size = small.size()});
  REQUIRE(whole.needs().size() == 1);
  CHECK(whole.needs()[0] == Extent{0, 0, small.size()});
}

TEST_CASE("An index of several MiB comes together from pieces of any size and order") {
  Value list = Value::list();
  for (std::int64_t i = 0; i < 150'000; ++i) list.add(Value::integer(i * 7));
  const auto file = testing::write_file(list);
  REQUIRE(file);
  REQUIRE(file->size() > std::size_t{3} << 20);
  testing::Random random(4);
  for (std::size_t way = 0; way < 4; ++way) {
    Opener opener({.file_size = file->size()});
    CHECK(opener.feed({0, 0, kFirstReadBytes}, testing::bytes_at(*file, {0, 0, kFirstReadBytes})));
    // One request, however it is put together.
    REQUIRE(opener.needs().size() == 1);
    CHECK(opener.needs()[0] == Extent{0, kFirstReadBytes, file->size() - kFirstReadBytes});
    constexpr std::array<std::uint64_t, 3> kSteps = {100'000, 1 << 20, 1 << 22};
    const bool fed = way == 3 ? testing::feed_scrambled(opener, *file, random).has_value()
                              : testing::feed_steps(opener, *file, kSteps[way]).has_value();
    CHECK(fed);
    const auto checkpoint = opener.finish();
    REQUIRE(checkpoint);
    CHECK(checkpoint->state().size() == 150'000);
    CHECK(checkpoint->state().child(149'999).as_int64() == 149'999 * 7);
  }
}

TEST_CASE("A damaged file is refused alike, however its bytes arrive") {
  const auto damaged = [](Bytes file, std::size_t at) {
    file[at] ^= std::byte{0x20};
    return file;
  };
  for (const Bytes& file : {small_file(), large_file()}) {
    CHECK(has_code(verdict(damaged(file, 0)), ErrorCode::kNotACheckpoint));
    CHECK(has_code(verdict(damaged(file, 9)), ErrorCode::kUnsupportedVersion));
    CHECK(has_code(verdict(damaged(file, 30)), ErrorCode::kHeaderCorrupt));
    CHECK(has_code(verdict(damaged(file, 125)), ErrorCode::kHeaderCorrupt));
    CHECK(has_code(verdict(damaged(file, kHeaderBytes)), ErrorCode::kIndexCorrupt));
    CHECK(has_code(verdict(damaged(file, kHeaderBytes + 200)), ErrorCode::kIndexCorrupt));
  }
  const Bytes large = large_file();
  CHECK(has_code(verdict(damaged(large, large.size() - 1)), ErrorCode::kIndexCorrupt));
}

TEST_CASE("A file of another length is refused, before its index is read") {
  const Bytes file = small_file();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{127}, std::size_t{128},
                                 std::size_t{300}, file.size() - 1}) {
    CAPTURE(size);
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(has_code(verdict(cut), ErrorCode::kTruncated));
  }
  Bytes longer = file;
  longer.push_back({});
  CHECK(has_code(verdict(longer), ErrorCode::kTrailingBytes));
}

TEST_CASE("Limits are kept") {
  const Bytes large = large_file();
  OpenOptions options;
  options.limits.index_bytes = 1000;
  CHECK(has_code(verdict(large, options), ErrorCode::kLimitExceeded));
  options.limits = {};
  options.limits.nodes = 5001;
  CHECK(has_code(verdict(large, options), ErrorCode::kLimitExceeded));
  options.limits.nodes = 5002;
  CHECK(verdict(large, options) == "ok");
}

TEST_CASE("A failed allocation is an error") {
  OpenOptions options;
  options.allocator = {[](std::size_t) -> void* { return nullptr; }, [](void*, std::size_t) {}};
  CHECK(has_code(verdict(small_file(), options), ErrorCode::kOutOfMemory));
}

// Acts like a malicious writer: changes the index and repairs every hash.
TEST_CASE("A changed index with mended hashes is refused by its contents, or opens") {
  const Bytes file = small_file();
  const std::uint64_t index_length = load_le<std::uint64_t>(&file[40]);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < index_length; ++i) {
    for (const unsigned change : {0x01u, 0x02u, 0x80u, 0xFFu}) {
      Bytes hostile = file;
      hostile[kHeaderBytes + i] ^= static_cast<std::byte>(change);
      const ByteSpan index = ByteSpan(hostile).subspan(kHeaderBytes, index_length);
      store_le(&hostile[48], hash128(index));
      store_le(&hostile[120], hash64(ByteSpan(hostile).first(120)));
      const auto checkpoint = testing::open_file(hostile);
      if (!checkpoint) {
        ++refused;
        CHECK(checkpoint.error().code != ErrorCode::kIndexCorrupt);
        continue;
      }
      for (Walker walk(checkpoint->state()); walk.next();) {
        if (const auto tensor = walk.node().tensor()) {
          (void)testing::read_tensor(hostile, *tensor);
        }
      }
    }
  }
  CHECK(refused > index_length * 3);
}

}  // namespace
}  // namespace espalier
