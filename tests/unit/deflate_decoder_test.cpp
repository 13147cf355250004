// Our own decoder of deflate, against zlib.
#include "espalier/foreign/zip/deflate_decoder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>
#include <zlib.h>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/zip/inflate.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

Bytes deflated(const Bytes& plain, int level, int strategy) {
  z_stream zlib = {};
  REQUIRE(deflateInit2(&zlib, level, Z_DEFLATED, -MAX_WBITS, 9, strategy) == Z_OK);
  Bytes packed(deflateBound(&zlib, static_cast<uLong>(plain.size())) + 64);
  std::string in(as_text(plain));
  zlib.next_in = reinterpret_cast<Bytef*>(in.data());
  zlib.avail_in = static_cast<uInt>(in.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&zlib, Z_FINISH) == Z_STREAM_END);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

struct Outcome {
  Bytes made;
  std::size_t taken = 0;
  bool is_at_end = false;
  bool is_bad = false;
};

// Decodes in pieces of at most these sizes.
Outcome decode(ByteSpan packed, std::size_t room, std::size_t most_in, std::size_t most_out) {
  DeflateDecoder decoder;
  Outcome outcome;
  outcome.made.resize(room);
  std::size_t end = 0;
  for (;;) {
    const ByteSpan in =
        packed.subspan(outcome.taken, std::min(most_in, packed.size() - outcome.taken));
    const auto progress =
        decoder.run(in, MutableByteSpan(outcome.made).subspan(end, std::min(most_out, room - end)));
    outcome.taken += progress.taken;
    end += progress.made;
    if (progress.taken == 0 && progress.made == 0) break;
  }
  outcome.made.resize(end);
  outcome.is_at_end = decoder.is_at_end();
  outcome.is_bad = decoder.is_bad();
  return outcome;
}

// Bytes that make literals, short and long matches, and distances up to the window.
Bytes sample(std::size_t size, testing::Random& random) {
  Bytes bytes;
  while (bytes.size() < size) {
    const auto kind = random.below(4);
    if (kind == 0 || bytes.size() < 4) {
      for (auto n = random.below(200); n-- > 0;) bytes.push_back(std::byte(random.below(256)));
    } else if (kind == 1) {
      bytes.insert(bytes.end(), random.below(600), std::byte(random.below(3)));
    } else {
      const std::size_t distance = 1 + random.below(std::min<std::size_t>(bytes.size(), 40'000));
      for (auto n = random.below(300); n-- > 0;) bytes.push_back(bytes[bytes.size() - distance]);
    }
  }
  bytes.resize(size);
  return bytes;
}

TEST_CASE("Streams of every level and strategy decode to what was compressed, in any pieces") {
  testing::Random random(1);
  for (const std::size_t size : std::initializer_list<std::size_t>{0, 1, 100, 40'000, 200'000}) {
    const Bytes plain = sample(size, random);
    for (const int level : {0, 1, 6, 9}) {
      for (const int strategy : {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED}) {
        const Bytes packed = deflated(plain, level, strategy);
        Bytes longer = packed;
        longer.resize(packed.size() + 9);
        for (const std::size_t most_in : {std::size_t{1}, std::size_t{7}, longer.size()}) {
          for (const std::size_t most_out : {std::size_t{13}, std::size_t{5000}, size + 1}) {
            const Outcome outcome = decode(longer, size + 1, most_in, most_out);
            CHECK(outcome.is_at_end);
            CHECK(outcome.made == plain);
            CHECK(outcome.taken == packed.size());
          }
        }
      }
    }
  }
}

TEST_CASE("A stream that is cut is neither at its end nor bad") {
  testing::Random random(2);
  const Bytes plain = sample(3000, random);
  for (const int strategy : {Z_DEFAULT_STRATEGY, Z_FIXED}) {
    const Bytes packed = deflated(plain, 9, strategy);
    for (std::size_t length = 0; length < packed.size(); ++length) {
      const Outcome outcome = decode(ByteSpan(packed).first(length), plain.size() + 1, 100, 5000);
      CHECK_FALSE(outcome.is_at_end);
      CHECK_FALSE(outcome.is_bad);
      CHECK(std::equal(outcome.made.begin(), outcome.made.end(), plain.begin()));
    }
  }
}

TEST_CASE("A code of lengths with one pattern alone is bad before any length is read") {
  // A last block with codes of its own, and 257 + 1 lengths in a code of four lengths: of these,
  // 16 and 17 have none, 18 has one bit, and 0 has `last` bits.
  const auto block = [](unsigned last) {
    std::uint64_t bits = 1 | 2u << 1;
    bits |= std::uint64_t{1} << (17 + 6) | std::uint64_t{last} << (17 + 9);
    Bytes packed(4);
    store_le(packed.data(), static_cast<std::uint32_t>(bits));
    return packed;
  };
  Bytes out(1);
  for (const unsigned last : {0u, 1u}) {
    const Outcome outcome = decode(block(last), 1, 100, 100);
    CHECK(outcome.is_bad == (last == 0));
    CHECK(Inflater().run(block(last), out).has_value() == (last == 1));
  }
}

TEST_CASE("A damaged stream gets the verdict and the bytes of zlib") {
  testing::Random random(3);
  std::size_t bad = 0;
  for (int round = 0; round < 6000; ++round) {
    const Bytes plain = sample(1 + random.below(3000), random);
    Bytes packed = deflated(plain, 9, round % 4 == 0 ? Z_FIXED : Z_DEFAULT_STRATEGY);
    // The codes of a block stand at its beginning.
    const std::size_t reach = std::min<std::size_t>(packed.size(), round % 2 == 0 ? 70 : ~0u);
    for (auto flips = 1 + random.below(3); flips-- > 0;) {
      packed[random.below(reach)] ^= std::byte(1u << random.below(8));
    }
    Inflater zlib;
    Bytes expected(20'000);
    const auto progress = zlib.run(packed, expected);
    if (progress) expected.resize(progress->made);
    bad += progress ? 0 : 1;
    for (const std::size_t most : {packed.size() + 20'000, std::size_t{9}}) {
      const Outcome outcome = decode(packed, 20'000, most, most);
      CHECK(outcome.is_bad == !progress.has_value());
      CHECK(outcome.is_at_end == zlib.is_at_end());
      if (progress) CHECK(outcome.made == expected);
    }
  }
  CHECK(bad > 1000);
}

// The verdict about a stream, with two bytes of zeros after it.
std::string verdict(Bytes packed) {
  packed.resize(packed.size() + 2);
  const Outcome outcome = decode(packed, 1000, packed.size(), 1000);
  Bytes out(1000);
  Inflater zlib;
  CHECK(zlib.run(packed, out).has_value() == !outcome.is_bad);
  CHECK(zlib.is_at_end() == outcome.is_at_end);
  if (outcome.is_bad) return "bad";
  return outcome.is_at_end ? "end" : "more";
}

Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes all;
  for (const unsigned value : values) all.push_back(std::byte(value));
  return all;
}

// A last block with codes of its own: the length of the code of each symbol, then `data`.
struct Length {
  std::size_t symbol;
  unsigned bits;
};
Bytes block(std::initializer_list<Length> literals, std::initializer_list<Length> distances,
            const std::string& data, std::size_t literal_count = 257,
            std::size_t distance_count = 1) {
  std::string bits =
      "1"
      "01";
  const auto number = [&](std::size_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) bits += static_cast<char>('0' + (value >> i & 1));
  };
  number(literal_count - 257, 5);
  number(distance_count - 1, 5);
  number(15, 4);
  // The code of code lengths: 0 to 15 have four bits each, 16 to 18 none.
  for (int i = 0; i < 19; ++i) number(i < 3 ? 0 : 4, 3);
  std::vector<unsigned> lengths(literal_count + distance_count);
  for (const Length& each : literals) lengths[each.symbol] = each.bits;
  for (const Length& each : distances) lengths[literal_count + each.symbol] = each.bits;
  for (const unsigned length : lengths) {
    for (unsigned i = 4; i-- > 0;) bits += static_cast<char>('0' + (length >> i & 1));
  }
  bits += data;
  Bytes packed((bits.size() + 7) / 8);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] == '1') packed[i / 8] |= std::byte(1u << i % 8);
  }
  return packed;
}

// A last block of 257 literals and one distance, whose code lengths have codes of one bit: '0' for
// a length of 1, and '1' for `other`, which is 16 or 18.
Bytes repeating(unsigned other, const std::string& lengths) {
  std::string bits = "10100000000000111";
  for (int i = 0; i < 18; ++i) bits += i == (other == 16 ? 0 : 2) || i == 17 ? "100" : "000";
  bits += lengths;
  Bytes packed((bits.size() + 7) / 8);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] == '1') packed[i / 8] |= std::byte(1u << i % 8);
  }
  return packed;
}

TEST_CASE("Code lengths that repeat are refused as zlib refuses them") {
  const std::string most = "11111111";    // 138 zeros
  const std::string others = "10101011";  // 117 zeros
  const std::string least = "10000000";   // 11 zeros
  const std::string end = "1";            // of the block
  CHECK(verdict(repeating(18, "0" + most + others + "00" + end)) == "end");
  CHECK(verdict(repeating(18, most + others + "000" + end)) == "end");
  // Beyond the last length.
  CHECK(verdict(repeating(18, "0" + most + others + "0" + least + end)) == "bad");
  // The length before the first one.
  CHECK(verdict(repeating(16, "100" + std::string(300, '0'))) == "bad");
}

TEST_CASE("Blocks and codes are refused as zlib refuses them") {
  CHECK(verdict(bytes({0x03, 0x00})) == "end");                 // no bytes
  CHECK(verdict(bytes({0x07})) == "bad");                       // a block of type 3
  CHECK(verdict(bytes({0x01, 1, 0, 0xFF, 0xFF, 7})) == "bad");  // stored, wrong length
  CHECK(verdict(bytes({0x01, 1, 0, 0xFE, 0xFF, 7})) == "end");
  CHECK(verdict(bytes({0x03, 0x02, 0x00})) == "bad");                    // a match at the start
  CHECK(verdict(bytes({0xFD, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})) == "bad");  // 288 literals

  CHECK(verdict(block({{0, 1}, {256, 1}}, {}, "001")) == "end");
  CHECK(verdict(block({{0, 1}, {1, 1}, {256, 1}}, {}, "0")) == "bad");  // too many codes
  CHECK(verdict(block({{0, 2}, {256, 2}}, {}, "01")) == "bad");         // too few
  CHECK(verdict(block({{256, 1}}, {}, "0")) == "end");                  // one, which may be alone
  CHECK(verdict(block({{256, 1}}, {}, "1")) == "bad");                  // the other one
  CHECK(verdict(block({{0, 1}, {1, 1}}, {}, "01")) == "bad");           // no end of the block
  CHECK(verdict(block({{0, 1}, {256, 1}}, {{0, 2}}, "1")) == "bad");    // too few distances
  CHECK(verdict(block({{0, 1}, {256, 1}}, {{0, 1}}, "1")) == "end");
  // A byte and a match of it; and a match that has no distance.
  CHECK(verdict(block({{0, 1}, {256, 2}, {257, 2}}, {{0, 1}}, "011010", 258)) == "end");
  CHECK(verdict(block({{0, 1}, {256, 2}, {257, 2}}, {}, "0110", 258)) == "bad");
  CHECK(verdict(block({{0, 1}, {256, 1}}, {}, "1", 287)) == "bad");  // too many literals
  CHECK(verdict(block({{0, 1}, {256, 1}}, {}, "1", 286, 30)) == "end");
  CHECK(verdict(block({{0, 1}, {256, 1}}, {}, "1", 257, 31)) == "bad");  // too many distances
  // The first code length repeats the one before it: codes 16 and 0 have one bit each.
  CHECK(verdict(bytes({0x05, 0xC0, 0x21, 0x00, 0x00, 0x00, 0x00, 0x00, 0xFE})) == "bad");
}

}  // namespace
}  // namespace espalier
