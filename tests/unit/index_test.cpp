#include "espalier/format/index.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/format/owned_tables.h"
#include "espalier/write/layout.h"

namespace espalier {
namespace {

// An index with records in every vector.
EncodedIndex example() {
  OwnedTables t;
  t.nodes.resize(3);
  t.nodes[2].value = 77;
  t.tensors.resize(1);
  t.shape_ends = {1};
  t.dims = {5};
  t.words = {1, 2, 3};
  t.text_ends = {3};
  t.text = {'a', 'b', 'c'};
  t.bytes.resize(5);
  t.labels.resize(1);
  t.dict_orders.resize(1);
  t.order = {2, 1, 0};
  t.axes.resize(1);
  t.axis_names = {0};
  t.blocks.resize(1);
  auto encoded = EncodedIndex::encode(std::move(t), 2);
  REQUIRE(encoded);
  encoded->chunks()[1].offset = 4096;
  return std::move(*encoded);
}

template <class Record>
std::vector<Record> copy(std::span<const Record> records) {
  return {records.begin(), records.end()};
}

OwnedTables copy(const Tables& t) {
  return {copy(t.nodes), copy(t.tensors),    copy(t.chunks),      copy(t.shape_ends),
          copy(t.dims),  copy(t.words),      copy(t.text_ends),   copy(t.text),
          copy(t.bytes), copy(t.labels),     copy(t.dict_orders), copy(t.order),
          copy(t.axes),  copy(t.axis_names), copy(t.blocks)};
}

// Bytes at an address that is a multiple of 8, as decode_index() demands.
struct Aligned {
  explicit Aligned(ByteSpan bytes) : words(bytes.size() / 8 + 1), size(bytes.size()) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }
  ByteSpan view() { return {data(), size}; }

  std::vector<std::uint64_t> words;
  std::size_t size;
};

TEST_CASE("An index comes back as it was encoded") {
  const EncodedIndex index = example();
  const auto tables = decode_index(index.bytes(), 128, 0);
  REQUIRE(tables);
  CHECK(tables->nodes.size() == 3);
  CHECK(tables->nodes[2].value == 77);
  CHECK(tables->chunks[1].offset == 4096);
  CHECK(std::string(tables->text.begin(), tables->text.end()) == "abc");
  CHECK(tables->bytes.size() == 5);
  CHECK(tables->order[0] == 2);
  CHECK(reinterpret_cast<const std::byte*>(tables->nodes.data()) > index.bytes().data());
}

TEST_CASE("Empty vectors are fine, in every combination of sizes") {
  for (std::size_t texts = 0; texts < 9; ++texts) {
    for (std::size_t words = 0; words < 3; ++words) {
      for (std::size_t chunks = 0; chunks < 2; ++chunks) {
        OwnedTables t;
        t.text.resize(texts);
        t.words.resize(words);
        const auto encoded = EncodedIndex::encode(std::move(t), chunks);
        REQUIRE(encoded);
        const auto tables = decode_index(encoded->bytes(), 0, 0);
        REQUIRE(tables);
        CHECK(tables->text.size() == texts);
        CHECK(tables->words.size() == words);
        CHECK(tables->chunks.size() == chunks);
        CHECK(tables->nodes.empty());
      }
    }
  }
}

TEST_CASE("Chunk records can be patched in place") {
  EncodedIndex index = example();
  index.chunks()[0].hash = {1, 2};
  CHECK(std::as_const(index).tables().chunks[0].hash == Hash128{1, 2});
}

TEST_CASE("An index cut short or followed by something is refused") {
  const EncodedIndex index = example();
  for (std::size_t size = 0; size < index.bytes().size(); ++size) {
    CAPTURE(size);
    Aligned cut(index.bytes().first(size));
    const auto tables = decode_index(cut.view(), 128, 0);
    REQUIRE_FALSE(tables);
    CHECK(tables.error().code == ErrorCode::kIndexInvalid);
    CHECK(tables.error().offset >= 128);
  }
  std::vector<std::byte> longer(index.bytes().begin(), index.bytes().end());
  longer.resize(longer.size() + 8);
  CHECK_FALSE(decode_index(Aligned(longer).view(), 128, 0));
}

// Every content has one layout: an accepted index encodes to the same bytes.
bool is_refused_or_canonical(Aligned& bytes) {
  const auto tables = decode_index(bytes.view(), 128, 0);
  if (!tables) return tables.error().code == ErrorCode::kIndexInvalid;
  auto encoded = EncodedIndex::encode(copy(*tables), tables->chunks.size());
  if (!encoded) return false;
  std::ranges::copy(tables->chunks, encoded->chunks().begin());
  return std::ranges::equal(std::as_const(*encoded).bytes(), bytes.view());
}

TEST_CASE("A damaged byte of an index is refused, or is that of another index") {
  const EncodedIndex index = example();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < index.bytes().size(); ++i) {
    for (unsigned value = 0; value < 256; ++value) {
      if (index.bytes()[i] == static_cast<std::byte>(value)) continue;
      Aligned damaged(index.bytes());
      damaged.data()[i] = static_cast<std::byte>(value);
      CAPTURE(i);
      CAPTURE(value);
      REQUIRE(is_refused_or_canonical(damaged));
      refused += decode_index(damaged.view(), 128, 0) ? 0 : 1;
    }
  }
  // The root, its vtable, fifteen references and fifteen lengths are some 170 bytes.
  CHECK(refused > 150 * 255);
}

TEST_CASE("Random damage of an index is refused, or makes another index") {
  const EncodedIndex index = example();
  testing::Random random(1);
  for (int round = 0; round < 20'000; ++round) {
    Aligned damaged(index.bytes());
    for (std::uint64_t n = 1 + random.below(6); n > 0; --n) {
      // Four bytes at a time: positions and sizes, not only their parts.
      const auto at = static_cast<std::size_t>(random.below(damaged.size - 3));
      const auto value = static_cast<std::uint32_t>(random.bits() >> random.below(60));
      store_le(damaged.data() + at, value);
    }
    REQUIRE(is_refused_or_canonical(damaged));
  }
}

}  // namespace
}  // namespace espalier
