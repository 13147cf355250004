// Chunks have whole elements, the last one of a tensor as well: 1 MiB and a tensor's bytes are
// multiples of an element's width. So no test has a part of an element, except for the error.
#include "espalier/codec/patch.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "espalier/base/little_endian.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/compression_level.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/patch_encoder.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kAny = std::size_t{1} << 30;
constexpr ElementLayout kI8{1, false};
constexpr ElementLayout kBF16{2, true};
constexpr ElementLayout kF32{4, true};
constexpr ElementLayout kF64{8, true};

Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes numbers(std::initializer_list<std::uint32_t> values) {
  Bytes bytes;
  for (const std::uint32_t value : values) {
    bytes.resize(bytes.size() + sizeof value);
    store_le(bytes.data() + bytes.size() - sizeof value, value);
  }
  return bytes;
}

Bytes random_bytes(testing::Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

std::uint64_t element(const Bytes& bytes, std::size_t width, std::size_t i) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + i * width, width);
  return value;
}

void set_element(Bytes& bytes, std::size_t width, std::size_t i, std::uint64_t value) {
  std::memcpy(bytes.data() + i * width, &value, width);
}

// Bytes of a patch, taken front to back.
struct Taker {
  ByteSpan rest;

  std::uint32_t number() {
    REQUIRE(rest.size() >= 4);
    const auto value = load_le<std::uint32_t>(rest.data());
    rest = rest.subspan(4);
    return value;
  }
  Bytes stream(std::size_t length, std::size_t size) {
    REQUIRE(length <= rest.size());
    const ByteSpan stored = rest.first(length);
    rest = rest.subspan(length);
    if (length == size) return {stored.begin(), stored.end()};
    if (length == 1) return Bytes(size, stored[0]);
    Bytes bytes(size);
    REQUIRE(ChunkDecoder().decode(Codec::kZstd, kI8, stored, bytes));
    return bytes;
  }
};

// The format's text, one sentence after the other: what a valid patch makes of its base.
Bytes apply_slowly(const Bytes& base, std::size_t width, ByteSpan patch) {
  const std::size_t n = base.size() / width;
  Taker taker{patch};
  const std::size_t count = taker.number();
  const std::size_t gap_bytes = taker.number();
  std::vector<std::size_t> lengths(1 + width);
  for (std::size_t& length : lengths) length = taker.number();
  REQUIRE(count >= 1);
  REQUIRE(count <= n);
  REQUIRE((gap_bytes == 0) == (count == n));
  if (gap_bytes == 0) {
    REQUIRE(lengths[0] == 0);
  } else {
    REQUIRE(gap_bytes >= count);
    REQUIRE(gap_bytes <= base.size());
  }
  const Bytes gaps = taker.stream(lengths[0], gap_bytes);
  std::vector<Bytes> planes;
  for (std::size_t k = 0; k < width; ++k) planes.push_back(taker.stream(lengths[1 + k], count));
  REQUIRE(taker.rest.empty());
  Bytes result = base;
  std::size_t gap = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (unsigned shift = 0; gap_bytes != 0; shift += 7) {
      const auto byte = std::to_integer<std::size_t>(gaps.at(gap++));
      next += (byte & 0x7F) << shift;
      if (byte < 0x80) {
        REQUIRE((byte != 0 || shift == 0));
        break;
      }
    }
    REQUIRE(next < n);
    std::uint64_t value = 0;
    for (std::size_t k = 0; k < width; ++k) {
      value |= std::to_integer<std::uint64_t>(planes[k][i]) << (8 * k);
    }
    if (gap_bytes != 0) REQUIRE(value != 0);
    const bool is_negative = value % 2 != 0;
    const std::uint64_t distance = value / 2 + (is_negative ? 1 : 0);
    const std::uint64_t before = element(base, width, next);
    set_element(result, width, next, is_negative ? before - distance : before + distance);
    ++next;
  }
  REQUIRE(gap == gaps.size());
  return result;
}

// Encodes, checks every promise of the encoder and applies the patch with the reference and with
// the decoder. Returns the patch, empty if there is none.
Bytes round_trip(PatchEncoder& encoder, ChunkDecoder& decoder, const Bytes& base,
                 const Bytes& logical, ElementLayout layout) {
  const auto patch = encoder.encode(base, logical, layout, kAny);
  REQUIRE(patch);
  if (!*patch) return {};
  const Bytes stored((*patch)->begin(), (*patch)->end());
  CHECK(stored.size() < logical.size());
  CHECK(apply_slowly(base, layout.width, stored) == logical);
  Bytes applied = base;
  const auto ok = decoder.apply_patch(layout, stored, applied);
  REQUIRE_MESSAGE(ok, ok.error().describe());
  CHECK(applied == logical);
  // Neither earlier chunks nor the room have an effect, and the room is a bound.
  PatchEncoder fresh;
  const auto again = fresh.encode(base, logical, layout, stored.size());
  REQUIRE(again);
  REQUIRE(*again);
  CHECK(Bytes((*again)->begin(), (*again)->end()) == stored);
  const auto smaller = fresh.encode(base, logical, layout, stored.size() - 1);
  REQUIRE(smaller);
  CHECK_FALSE(*smaller);
  return stored;
}

struct Example {
  ElementLayout layout;
  Bytes base;
  Bytes logical;
  Bytes stored;
};

// Written by hand. 40 elements of bf16, three of which change: by 1, -1 and 256.
Example sparse_bf16() {
  Bytes base;
  for (unsigned i = 0; i < 40; ++i) base = base + bytes_of({i, 0x3F});
  Bytes logical = base;
  logical[2 * 3] = std::byte{4};
  logical[2 * 4] = std::byte{3};
  logical[2 * 39 + 1] = std::byte{0x40};
  return {kBF16, base, logical,
          numbers({3, 3, 3, 3, 3}) + bytes_of({3, 0, 34,          // gaps
                                               0x02, 1, 0x00,     // lower bytes of 2, 1, 0x200
                                               0x00, 0, 0x02})};  // upper bytes
}

// 300 bytes: a gap of two bytes before 255 becomes 0, and 3 becomes 1.
Example sparse_i8() {
  Bytes base(300, std::byte{3});
  base[200] = std::byte{255};
  Bytes logical = base;
  logical[200] = std::byte{0};
  logical[201] = std::byte{1};
  return {kI8, base, logical, numbers({2, 3, 3, 2}) + bytes_of({0xC8, 0x01, 0, 2, 3})};
}

// 20 elements of bf16, each 2 less than before, across 0.
Example dense_bf16() {
  Bytes base;
  Bytes logical;
  for (unsigned i = 0; i < 20; ++i) {
    base = base + bytes_of({i, 0});
    logical = logical + bytes_of({i - 2, i < 2 ? 0xFFu : 0u});
  }
  return {kBF16, base, logical, numbers({20, 0, 0, 1, 1}) + bytes_of({3, 0})};
}

// Dense with an element that does not change, which only a dense patch may name.
Example dense_i8() {
  return {kI8, bytes_of({10, 20, 30, 0, 255}), bytes_of({11, 20, 29, 128, 1}),
          numbers({5, 0, 0, 5}) + bytes_of({2, 0, 1, 255, 4})};
}

std::vector<Example> examples() { return {sparse_bf16(), sparse_i8(), dense_bf16(), dense_i8()}; }

bool applies(const Example& example, const Bytes& stored) {
  Bytes applied = example.base;
  const auto ok = ChunkDecoder().apply_patch(example.layout, stored, applied);
  if (!ok) CHECK(ok.error().code == ErrorCode::kChunkCorrupt);
  return ok && applied == example.logical;
}

TEST_CASE("Patches written by hand apply") {
  for (const Example& example : examples()) {
    CHECK(applies(example, example.stored));
    CHECK(apply_slowly(example.base, example.layout.width, example.stored) == example.logical);
  }
}

TEST_CASE("The encoder writes what was written by hand") {
  for (const Example& example : {sparse_bf16(), sparse_i8(), dense_bf16()}) {
    PatchEncoder encoder;
    const auto patch = encoder.encode(example.base, example.logical, example.layout, kAny);
    REQUIRE(patch);
    REQUIRE(*patch);
    CHECK(Bytes((*patch)->begin(), (*patch)->end()) == example.stored);
  }
}

TEST_CASE("A chunk that equals its base, is empty or would not get shorter has no patch") {
  PatchEncoder encoder;
  const auto none = [&](const Bytes& base, const Bytes& logical, ElementLayout layout) {
    const auto patch = encoder.encode(base, logical, layout, kAny);
    REQUIRE(patch);
    return !*patch;
  };
  testing::Random random(1);
  const Bytes noise = random_bytes(random, 4096);
  CHECK(none(noise, noise, kF32));
  CHECK(none({}, {}, kF32));
  CHECK(none(Bytes(16), Bytes(16, std::byte{1}), kBF16));
  CHECK(none(noise, random_bytes(random, 4096), kF32));
  CHECK(none(bytes_of({1}), bytes_of({2}), kI8));
}

// A base and what a change makes of it; `change` gets an element and returns another.
using Change = std::function<std::uint64_t(std::uint64_t)>;

Bytes changed(testing::Random& random, const Bytes& base, std::size_t width, std::size_t per_10000,
              const Change& change) {
  Bytes logical = base;
  for (std::size_t i = 0; i < base.size() / width; ++i) {
    if (random.below(10'000) < per_10000) {
      set_element(logical, width, i, change(element(base, width, i)));
    }
  }
  return logical;
}

TEST_CASE("Changes of every width, density and kind come back") {
  testing::Random random(17);
  PatchEncoder encoder;
  ChunkDecoder decoder;
  const std::vector<std::pair<std::string, Change>> kinds = {
      {"one unit", [&](std::uint64_t x) { return x + (random.one_in(2) ? 1 : ~std::uint64_t{0}); }},
      {"few units", [&](std::uint64_t x) { return x + random.below(40) - 20; }},
      {"upper byte", [&](std::uint64_t x) { return x ^ 0x8080'8080'8080'8080u; }},
      {"noise", [&](std::uint64_t) { return random.bits(); }},
      {"zero", [](std::uint64_t) { return std::uint64_t{0}; }},
  };
  std::size_t patches = 0;
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    const ElementLayout layout{static_cast<std::uint8_t>(width), width > 1};
    for (const std::size_t n : {1u, 2u, 31u, 33u, 700u, 5000u, 20'001u}) {
      const Bytes base = random_bytes(random, n * width);
      for (const auto& kind : kinds) {
        for (const std::size_t density : {3u, 60u, 1000u, 4500u, 6000u, 9300u, 9990u, 10'000u}) {
          CAPTURE(width);
          CAPTURE(n);
          CAPTURE(kind.first);
          CAPTURE(density);
          const Bytes logical = changed(random, base, width, density, kind.second);
          patches += round_trip(encoder, decoder, base, logical, layout).empty() ? 0 : 1;
        }
      }
    }
  }
  CHECK(patches > 500);
}

TEST_CASE("Chunks of full size come back, with changes at both ends and far apart") {
  constexpr std::size_t kChunk = 1 << 20;
  testing::Random random(23);
  PatchEncoder encoder;
  ChunkDecoder decoder;
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    CAPTURE(width);
    const ElementLayout layout{static_cast<std::uint8_t>(width), false};
    Bytes base = random_bytes(random, kChunk);
    base.front() = base.back() = std::byte{6};
    Bytes ends = base;
    ends.front() = ends.back() = std::byte{7};
    // Gaps of one byte and of three; then the lowest and the highest plane, and between them zeros.
    // Single bytes change alike.
    const std::size_t streams = width == 1 ? 1 : 2 + 2 + (width - 2);
    CHECK(round_trip(encoder, decoder, base, ends, layout).size() ==
          4 * (3 + width) + (1 + 3) + streams);
    const auto step = [](std::uint64_t x) { return x + 1; };
    round_trip(encoder, decoder, base, changed(random, base, width, 64, step), layout);
    round_trip(encoder, decoder, base, changed(random, base, width, 5500, step), layout);
    round_trip(encoder, decoder, base, changed(random, base, width, 10'000, step), layout);
  }
}

// A patch of single bytes, with all streams as they are.
Bytes plain_patch(const Bytes& gaps, const Bytes& differences) {
  const auto count = static_cast<std::uint32_t>(differences.size());
  const auto gap_bytes = static_cast<std::uint32_t>(gaps.size());
  return numbers({count, gap_bytes, gap_bytes, count}) + gaps + differences;
}

TEST_CASE("Many changes, near and far from each other, are refused for one that is wrong") {
  // The decoder takes changes that are far apart in groups of 256.
  for (const std::size_t distance : {2u, 31u, 32u, 33u, 127u}) {
    CAPTURE(distance);
    constexpr std::size_t kCount = 600;
    const Bytes base(kCount * distance, std::byte{9});
    const Bytes gaps(kCount, static_cast<std::byte>(distance - 1));
    const Bytes differences(kCount, std::byte{2});
    const auto apply = [&](const Bytes& some_gaps, const Bytes& some_differences) {
      Bytes applied = base;
      const Bytes patch = plain_patch(some_gaps, some_differences);
      if (!ChunkDecoder().apply_patch(kI8, patch, applied)) return false;
      CHECK(apply_slowly(base, 1, patch) == applied);
      return true;
    };
    CHECK(apply(gaps, differences));
    for (const std::size_t at : {0u, 1u, 255u, 256u, 257u, 511u, 512u, 599u}) {
      CAPTURE(at);
      Bytes zero = differences;
      zero[at] = std::byte{0};
      CHECK_FALSE(apply(gaps, zero));
      Bytes beyond = gaps;
      beyond[at] = static_cast<std::byte>(distance);
      CHECK_FALSE(apply(beyond, differences));
      // Takes the byte after it along, so that the last gap is missing or cut off.
      Bytes cut = gaps;
      cut[at] |= std::byte{0x80};
      CHECK_FALSE(apply(cut, differences));
      Bytes nearer = gaps;
      nearer[at] = static_cast<std::byte>(distance - 2);
      CHECK(apply(nearer, differences));
    }
    CHECK_FALSE(apply(gaps + bytes_of({0}), differences));
  }
}

TEST_CASE("Elements are bits: signs, infinities, NaN and wrap-around come back") {
  PatchEncoder encoder;
  ChunkDecoder decoder;
  const std::vector<std::uint64_t> bf16 = {0,      0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1,
                                           0x7F81, 0xFFFF, 1,      0x8001, 0x7FFF, 0x3F80};
  for (const ElementLayout layout : {kBF16, kF32, kF64}) {
    const std::size_t width = layout.width;
    for (const std::size_t filler : {0u, 400u}) {
      Bytes base(width * (bf16.size() * bf16.size() + filler));
      Bytes logical = base;
      for (std::size_t i = 0; i < bf16.size() * bf16.size(); ++i) {
        const std::size_t shift = 8 * (width - 2);
        set_element(base, width, i, bf16[i / bf16.size()] << shift);
        set_element(logical, width, i, bf16[i % bf16.size()] << shift);
      }
      CHECK_FALSE(round_trip(encoder, decoder, base, logical, layout).empty());
    }
  }
}

TEST_CASE("Small steps of weights cost little more than their entropy") {
  constexpr std::size_t kElements = 1 << 19;
  testing::Random random(29);
  PatchEncoder encoder;
  ChunkDecoder decoder;
  const Bytes base = random_bytes(random, 2 * kElements);
  const auto step = [&](std::uint64_t x) { return random.one_in(2) ? x + 1 : x - 1; };
  // Bits of a change: its place and its sign.
  const auto check = [&](std::size_t per_10000, double entropy) {
    const Bytes logical = changed(random, base, 2, per_10000, step);
    const auto patch = round_trip(encoder, decoder, base, logical, kBF16);
    const double limit =
        entropy * static_cast<double>(kElements) * static_cast<double>(per_10000) / 80'000;
    CAPTURE(per_10000);
    CHECK(static_cast<double>(patch.size()) < 1.2 * limit);
  };
  check(64, 8.73 + 1);
  check(150, 7.49 + 1);
  check(400, 6.06 + 1);
  check(2000, 3.61 + 1);
}

TEST_CASE("Every rule is checked") {
  const Example sparse = sparse_bf16();
  const Example bytes = sparse_i8();
  const Example dense = dense_bf16();
  const Example full = dense_i8();
  struct Broken {
    const char* rule;
    Example example;
    Bytes stored;
  };
  const auto gaps = [](std::uint32_t count, const Bytes& gap, const Bytes& plane) {
    return numbers({count, static_cast<std::uint32_t>(gap.size()),
                    static_cast<std::uint32_t>(gap.size()),
                    static_cast<std::uint32_t>(plane.size())}) +
           gap + plane;
  };
  // The example of bytes in this form, unbroken.
  REQUIRE(applies(bytes, gaps(2, bytes_of({0xC8, 0x01, 0}), bytes_of({2, 3}))));
  const std::vector<Broken> all = {
      {"no changes", bytes, gaps(0, {}, {})},
      {"no changes, and gaps", bytes, gaps(0, bytes_of({0}), bytes_of({1}))},
      {"more changes than elements", full, numbers({6, 0, 0, 6}) + bytes_of({2, 0, 1, 255, 4, 0})},
      {"as many changes as elements, with gaps", full,
       gaps(5, bytes_of({0, 0, 0, 0, 0}), bytes_of({2, 2, 1, 255, 4}))},
      {"dense, and a stream of gaps", full, numbers({5, 0, 1, 5}) + bytes_of({0, 2, 0, 1, 255, 4})},
      {"fewer changes than elements, without gaps", full,
       numbers({4, 0, 0, 4}) + bytes_of({2, 0, 1, 255})},
      {"fewer gap bytes than changes", bytes, gaps(2, bytes_of({0}), bytes_of({2, 3}))},
      {"fewer gap bytes than they take", bytes,
       numbers({2, 2, 2, 2}) + bytes_of({0xC8, 0x01, 2, 3})},
      {"more gap bytes than they take", bytes,
       gaps(2, bytes_of({0xC8, 0x01, 0, 0}), bytes_of({2, 3}))},
      {"more gap bytes than the chunk", bytes, numbers({2, 301, 1, 2}) + bytes_of({0, 2, 3})},
      {"gap bytes that wrap", bytes, numbers({2, 0xFFFF'FFFF, 1, 2}) + bytes_of({0, 2, 3})},
      {"a gap in two bytes where one is enough", bytes,
       gaps(2, bytes_of({0xC8, 0x01, 0x80, 0x00}), bytes_of({2, 3}))},
      {"a gap in three bytes where two are enough", bytes,
       gaps(2, bytes_of({0xC8, 0x81, 0x00, 0}), bytes_of({2, 3}))},
      {"a gap that does not end", bytes, gaps(2, bytes_of({0xC8, 0x01, 0x80}), bytes_of({2, 3}))},
      {"gaps that do not end", bytes,
       gaps(2, bytes_of({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}), bytes_of({2, 3}))},
      {"a position at the end", bytes, gaps(2, bytes_of({0xC8, 0x01, 99}), bytes_of({2, 3}))},
      {"a gap of 2^31", bytes,
       gaps(2, bytes_of({0, 0x80, 0x80, 0x80, 0x80, 0x08}), bytes_of({2, 3}))},
      {"a gap of 2^32 + 200", bytes,
       gaps(2, bytes_of({0xC8, 0x81, 0x80, 0x80, 0x10, 0}), bytes_of({2, 3}))},
      {"a gap of 2^35 + 200", bytes,
       gaps(2, bytes_of({0xC8, 0x81, 0x80, 0x80, 0x80, 0x01, 0}), bytes_of({2, 3}))},
      {"a gap of 2^64 + 200", bytes,
       gaps(2, bytes_of({0xC8, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0}),
            bytes_of({2, 3}))},
      {"a difference of 0", bytes, gaps(2, bytes_of({0xC8, 0x01, 0}), bytes_of({2, 0}))},
      {"a difference of 0 in both planes", sparse,
       numbers({3, 3, 3, 3, 3}) + bytes_of({3, 0, 34, 0, 1, 0, 0, 0, 2})},
      {"a stream of no bytes", sparse,
       numbers({3, 3, 3, 3, 0}) + bytes_of({3, 0, 34, 0x02, 1, 0x00})},
      {"a stream that is longer", sparse,
       numbers({3, 3, 3, 4, 3}) + bytes_of({3, 0, 34, 0x02, 1, 0x00, 0, 0x00, 0, 0x02})},
      {"a stream that is longer than the patch", sparse,
       numbers({3, 3, 3, 3, 4}) + bytes_of({3, 0, 34, 0x02, 1, 0x00, 0x00, 0, 0x02})},
      {"lengths that wrap", sparse,
       numbers({3, 3, 3, 0xFFFF'FFFF, 4}) + bytes_of({3, 0, 34, 0x02, 1, 0x00, 0x00, 0, 0x02})},
      {"a stream of neither form", sparse,
       numbers({3, 3, 3, 2, 3}) + bytes_of({3, 0, 34, 0x02, 1, 0x00, 0, 0x02})},
      {"a byte after the streams", sparse, sparse.stored + bytes_of({0})},
      {"a byte after dense streams", dense, dense.stored + bytes_of({0})},
      {"nothing", sparse, {}},
      {"half of the lengths", sparse, numbers({3, 3})},
      {"no streams", sparse, numbers({3, 3, 3, 3, 3})},
  };
  for (const Broken& broken : all) {
    CAPTURE(broken.rule);
    Bytes applied = broken.example.base;
    const auto ok = ChunkDecoder().apply_patch(broken.example.layout, broken.stored, applied);
    REQUIRE_FALSE(ok);
    CHECK(ok.error().code == ErrorCode::kChunkCorrupt);
  }
}

TEST_CASE("A patch is for chunks of whole elements, and has a base") {
  const Example example = sparse_bf16();
  ChunkDecoder decoder;
  Bytes applied = example.base;
  applied.pop_back();
  CHECK_FALSE(decoder.apply_patch(kBF16, example.stored, applied));
  applied.clear();
  CHECK_FALSE(decoder.apply_patch(kBF16, example.stored, applied));
  CHECK_FALSE(decoder.apply_patch(kBF16, numbers({0, 0, 0, 0, 0}), applied));
  applied = example.base;
  CHECK_FALSE(decoder.apply_patch(kI8, example.stored, applied));
  CHECK_FALSE(decoder.decode(Codec::kPatch, kBF16, example.stored, applied));
}

TEST_CASE("A patch of the first element is not for a chunk that ends within another") {
  const Bytes stored = numbers({1, 1, 1, 1, 1}) + bytes_of({0, 2, 0});
  Bytes applied(4);
  CHECK(ChunkDecoder().apply_patch(kBF16, stored, applied));
  CHECK(applied == bytes_of({1, 0, 0, 0}));
  applied.assign(5, std::byte{0});
  CHECK_FALSE(ChunkDecoder().apply_patch(kBF16, stored, applied));
}

TEST_CASE("Changes that go on for longer than their gaps are refused") {
  // The gaps end with the first 4096 changes, which the decoder takes together.
  Bytes gaps;
  for (int i = 0; i < 4096; ++i) gaps = std::move(gaps) + bytes_of({0x80, 0x01});
  gaps.push_back(std::byte{0});
  const Bytes plane(8192, std::byte{2});
  for (const std::size_t size : {std::size_t{1} << 18, std::size_t{1} << 20}) {
    Bytes logical(size);
    PlanePointers<const std::byte> planes = {plane.data()};
    const bool is_inside = 4096u * 129 <= size;
    CHECK(apply_changes(1, gaps, planes, 4096, logical) == is_inside);
    CHECK_FALSE(apply_changes(1, gaps, planes, 8192, logical));
  }
}

TEST_CASE("No byte beyond the gaps and the zero byte after them is read") {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  auto* const end = static_cast<std::byte*>(pages) + page;
  REQUIRE(::mprotect(end, page, PROT_NONE) == 0);
  const Bytes plane(5, std::byte{2});
  for (const Bytes& gaps : {bytes_of({0, 0}), bytes_of({0x80, 0}), bytes_of({0, 0x80, 0})}) {
    // A sparse chunk and a dense one, which are changed in different ways.
    for (const std::size_t size : {std::size_t{100}, std::size_t{1000}}) {
      Bytes logical(size);
      std::copy(gaps.begin(), gaps.end(), end - gaps.size());
      const PlanePointers<const std::byte> planes = {plane.data()};
      CHECK_FALSE(apply_changes(1, ByteSpan(end - gaps.size(), gaps.size()), planes, 5, logical));
    }
  }
  ::munmap(pages, 2 * page);
}

TEST_CASE("A patch without the bytes of its bases is refused") {
  const Example example = sparse_bf16();
  StoredChunk chunk{.codec = Codec::kPatch,
                    .layout = example.layout,
                    .stored = static_cast<std::uint32_t>(example.stored.size()),
                    .length = static_cast<std::uint32_t>(example.base.size())};
  const std::vector<ByteSpan> all = {example.stored, example.base};
  const StoredLayers layers{std::span(all)};
  const StoredLayers without{std::span(all).first(1)};
  const auto is_truncated = [&](StoredLayers given) {
    const auto opened = ChunkGate().open(chunk, given);
    return !opened && opened.error().code == ErrorCode::kTruncated;
  };
  CHECK(is_truncated(without));
  CHECK(is_truncated(layers));
  const auto length = static_cast<std::uint32_t>(example.base.size());
  chunk.bases.push_back({.codec = Codec::kRaw, .stored = length, .hash = hash128(example.base)});
  CHECK(is_truncated(without));
  ChunkGate gate;
  const auto opened = gate.open(chunk, layers);
  REQUIRE_MESSAGE(opened, opened.error().describe());
  CHECK(std::equal(opened->begin(), opened->end(), example.logical.begin(), example.logical.end()));
}

TEST_CASE("Of two bases that are wrong, the error names the one that comes first in the making") {
  const Example example = sparse_bf16();
  const Bytes broken = numbers({0});
  const auto length = static_cast<std::uint32_t>(example.base.size());
  const StoredChunk chunk{
      .codec = Codec::kPatch,
      .layout = example.layout,
      .stored = static_cast<std::uint32_t>(example.stored.size()),
      .length = length,
      .hash = hash128(example.logical),
      .bases = {{.codec = Codec::kPatch, .stored = 4, .hash = hash128(example.base)},
                {.codec = Codec::kRaw, .stored = length, .hash = hash128(example.base)}}};
  Bytes changed = example.base;
  const std::vector<ByteSpan> all = {example.stored, broken, changed};
  const StoredLayers layers{std::span(all)};
  for (const std::uint64_t wrong : {0u, 1u}) {
    if (wrong == 1) changed.back() ^= std::byte{1};
    const auto opened = ChunkGate().open(chunk, layers);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == ErrorCode::kBaseMismatch);
    CHECK(opened.error().offset == wrong);
  }
}

// Patches with streams of every form.
std::vector<Example> small_patches() {
  std::vector<Example> all = examples();
  testing::Random random(31);
  PatchEncoder encoder;
  ChunkDecoder decoder;
  bool framed = false;
  for (const ElementLayout layout : {kI8, kBF16, kF32, kF64}) {
    for (const std::size_t density : {500u, 3000u, 9000u}) {
      Example example{layout, random_bytes(random, 700u * layout.width), {}, {}};
      example.logical = changed(random, example.base, layout.width, density,
                                [&](std::uint64_t x) { return x + random.below(4) - 2; });
      example.stored = round_trip(encoder, decoder, example.base, example.logical, layout);
      REQUIRE_FALSE(example.stored.empty());
      const auto magic = bytes_of({0x28, 0xB5, 0x2F, 0xFD});
      framed |= std::search(example.stored.begin(), example.stored.end(), magic.begin(),
                            magic.end()) != example.stored.end();
      all.push_back(std::move(example));
    }
  }
  CHECK(framed);
  return all;
}

TEST_CASE("Every flipped bit of a patch shows, and so does every cut") {
  for (const Example& example : small_patches()) {
    Bytes stored = example.stored;
    CHECK(applies(example, stored));
    for (std::size_t bit = 0; bit < 8 * stored.size(); ++bit) {
      stored[bit / 8] ^= std::byte{1} << (bit % 8);
      CAPTURE(bit);
      CHECK_FALSE(applies(example, stored));
      stored[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    for (std::size_t size = 0; size < stored.size(); ++size) {
      Bytes applied = example.base;
      CHECK_FALSE(
          ChunkDecoder().apply_patch(example.layout, ByteSpan(stored).first(size), applied));
    }
  }
}

TEST_CASE("One decoder takes patches and other chunks in turns, also after errors") {
  ChunkDecoder decoder;
  testing::Random random(37);
  ChunkEncoder encoder(kFastCompression);
  const Bytes zeros(4000);
  const auto planes = encoder.encode(zeros, kF32);
  REQUIRE(planes);
  for (int round = 0; round < 3; ++round) {
    for (const Example& example : small_patches()) {
      Bytes applied = example.base;
      CHECK_FALSE(decoder.apply_patch(example.layout, example.stored + bytes_of({0}), applied));
      applied = example.base;
      CHECK(decoder.apply_patch(example.layout, example.stored, applied));
      CHECK(applied == example.logical);
      Bytes out(zeros.size(), std::byte{1});
      CHECK(decoder.decode(planes->codec, kF32, planes->bytes, out));
      CHECK(out == zeros);
    }
  }
}

}  // namespace
}  // namespace espalier
