#include <string>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/compression_level.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/sample.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

constexpr ElementLayout kBytes{1, false};
constexpr ElementLayout kF8{1, true};
constexpr ElementLayout kBF16{2, true};
constexpr ElementLayout kF32{4, true};
constexpr ElementLayout kF64{8, true};
constexpr ElementLayout kI64{8, false};

// Twelve uniform numbers are as good as normal here, and the same with every standard library.
float gaussian(testing::Random& random) {
  std::int64_t sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<std::int64_t>(random.below(1 << 16));
  return static_cast<float>(sum - 6 * (1 << 16)) / (1 << 16) * 0.02F;
}

template <class T, class Make>
Bytes elements(std::size_t n, const Make& make) {
  Bytes bytes(n * sizeof(T));
  for (std::size_t i = 0; i < n; ++i) store_le(bytes.data() + i * sizeof(T), T(make(i)));
  return bytes;
}

Bytes weights_f32(std::size_t n, bool as_bf16 = false) {
  testing::Random random(7);
  return elements<std::uint32_t>(n, [&](std::size_t) {
    const auto bits = bits_as<std::uint32_t>(gaussian(random));
    return as_bf16 ? bits & 0xFFFF0000u : bits;
  });
}

Bytes weights_bf16(std::size_t n) {
  testing::Random random(7);
  return elements<std::uint16_t>(
      n, [&](std::size_t) { return bits_as<std::uint32_t>(gaussian(random)) >> 16; });
}

Bytes noise(std::size_t size) {
  testing::Random random(3);
  return elements<std::uint8_t>(size, [&](std::size_t) { return random.below(256); });
}

struct Kind {
  std::string name;
  ElementLayout layout;
  Bytes bytes;
};

std::vector<Kind> kinds(std::size_t n) {
  testing::Random random(5);
  std::vector<Kind> all;
  all.push_back({"bf16", kBF16, weights_bf16(n)});
  all.push_back({"f32", kF32, weights_f32(n)});
  all.push_back({"f32 of bf16", kF32, weights_f32(n, true)});
  all.push_back({"f64", kF64, elements<double>(n, [&](std::size_t) { return gaussian(random); })});
  all.push_back({"f8", kF8, elements<std::uint8_t>(n, [&](std::size_t) {
                   return bits_as<std::uint32_t>(gaussian(random)) >> 22;
                 })});
  all.push_back(
      {"i64", kI64, elements<std::int64_t>(n, [&](std::size_t) { return random.below(50000); })});
  all.push_back({"counting", kI64, elements<std::int64_t>(n, [](std::size_t i) { return i; })});
  all.push_back({"noise", kBF16, noise(2 * n)});
  all.push_back({"zeros", kF32, Bytes(4 * n)});
  all.push_back({"ones", kBytes, Bytes(n, std::byte{1})});
  all.push_back({"text", kBytes, elements<char>(n, [&](std::size_t) {
                   return "the same few letters, over"[random.below(26)];
                 })});
  Bytes sparse = weights_f32(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (i / 64 % 8 != 0) store_le(sparse.data() + 4 * i, 0.0F);
  }
  all.push_back({"sparse", kF32, std::move(sparse)});
  return all;
}

Bytes decode(const ChunkEncoder::Encoded& encoded, ElementLayout layout, std::size_t size) {
  Bytes out(size, std::byte{0xA5});
  const auto decoded = ChunkDecoder().decode(encoded.codec, layout, encoded.bytes, out);
  REQUIRE_MESSAGE(decoded, decoded.error().describe());
  return out;
}

double ratio(const Bytes& bytes, ElementLayout layout, int level = kFastCompression) {
  ChunkEncoder encoder(level);
  const auto encoded = encoder.encode(bytes, layout);
  REQUIRE(encoded);
  CHECK(decode(*encoded, layout, bytes.size()) == bytes);
  return static_cast<double>(bytes.size()) / static_cast<double>(encoded->bytes.size());
}

TEST_CASE("Every kind of chunk comes back, at every level, and none gets longer") {
  for (const int level : {1, 2, 9}) {
    ChunkEncoder reused(level);
    for (const std::size_t n : {1u, 7u, 63u, 64u, 500u, 2049u, 12'000u}) {
      for (const Kind& kind : kinds(n)) {
        CAPTURE(level);
        CAPTURE(n);
        CAPTURE(kind.name);
        const auto encoded = reused.encode(kind.bytes, kind.layout);
        REQUIRE(encoded);
        CHECK(encoded->bytes.size() <= kind.bytes.size());
        CHECK((encoded->codec == Codec::kRaw) == (encoded->bytes.size() == kind.bytes.size()));
        CHECK(decode(*encoded, kind.layout, kind.bytes.size()) == kind.bytes);
        // Earlier chunks have no effect.
        const Bytes first(encoded->bytes.begin(), encoded->bytes.end());
        ChunkEncoder fresh(level);
        const auto again = fresh.encode(kind.bytes, kind.layout);
        REQUIRE(again);
        CHECK(Bytes(again->bytes.begin(), again->bytes.end()) == first);
      }
    }
  }
}

TEST_CASE("Weights get as small as their entropy lets them") {
  constexpr std::size_t kElements = 1 << 18;
  CHECK(ratio(weights_bf16(2 * kElements), kBF16) >= 1.48);
  CHECK(ratio(weights_f32(kElements), kF32) >= 1.18);
  CHECK(ratio(weights_f32(kElements, true), kF32) >= 2.9);
  CHECK(ratio(Bytes(4 * kElements), kF32) > 10'000);
  for (const Kind& kind : kinds(kElements / 2)) {
    CAPTURE(kind.name);
    // A stronger level looks for more.
    CHECK(ratio(kind.bytes, kind.layout, 2) >= ratio(kind.bytes, kind.layout, 1) * 0.999);
  }
}

TEST_CASE("Chunks of full size come back from every encoder") {
  constexpr std::size_t kChunk = 1 << 20;
  for (const int level : {1, 2}) {
    for (const Kind& kind : kinds(kChunk)) {
      CAPTURE(level);
      CAPTURE(kind.name);
      const Bytes chunk(kind.bytes.begin(), kind.bytes.begin() + kChunk);
      const double gain = ratio(chunk, kind.layout, level);
      if (kind.name == "noise") {
        CHECK(gain == 1);
      } else {
        CHECK(gain > 1.1);
      }
    }
  }
}

TEST_CASE("A sample distinguishes noise from uneven values, and finds repeats") {
  const ChunkSample weights = take_sample(weights_bf16(10'000), kBF16);
  CHECK_FALSE(weights.uneven[0]);
  CHECK(weights.uneven[1]);
  CHECK_FALSE(weights.repeats);
  CHECK_FALSE(take_sample(noise(100'000), kF64).any_uneven());
  CHECK_FALSE(take_sample(noise(100'000), kF64).repeats);
  CHECK(take_sample(Bytes(100'000), kF32).repeats);
}

// Weights where every fourth part of 32 Ki elements is larger than the one before.
Bytes uneven_parts(std::size_t n) {
  testing::Random random(11);
  return elements<std::uint16_t>(n, [&](std::size_t i) {
    const auto scale = static_cast<float>(1 << (i / kLocalBytes % 4 * 2));
    return bits_as<std::uint32_t>(gaussian(random) * scale) >> 16;
  });
}

// Weights whose rows of 4096 have scales of their own, which are alike from one part to the next.
Bytes uneven_rows(std::size_t n) {
  testing::Random random(11);
  return elements<std::uint16_t>(n, [&](std::size_t i) {
    const auto scale = static_cast<float>(1 << (i / 4096 % 4));
    return bits_as<std::uint32_t>(gaussian(random) * scale) >> 16;
  });
}

TEST_CASE(
    "Parts that differ from each other are told from rows that do, and have their own codes") {
  constexpr std::size_t kElements = (std::size_t{1} << 20) / 2;
  const Bytes parts = uneven_parts(kElements);
  CHECK(take_sample(parts, kBF16).local[1]);
  CHECK_FALSE(take_sample(parts, kBF16).local[0]);
  CHECK_FALSE(take_sample(uneven_rows(kElements), kBF16).local[1]);
  CHECK_FALSE(take_sample(weights_bf16(kElements), kBF16).local[1]);
  // Too short for two parts.
  CHECK_FALSE(take_sample(ByteSpan(parts).first(60'000), kBF16).local[1]);

  // As small as weights of one scale, but for the tables.
  CHECK(ratio(parts, kBF16, kFastCompression) >
        0.995 * ratio(weights_bf16(kElements), kBF16, kFastCompression));
}

TEST_CASE("Whatever is cut, appended or flipped, the decoder says no or gives something else") {
  for (const Kind& kind : kinds(120)) {
    CAPTURE(kind.name);
    ChunkEncoder encoder(kFastCompression);
    const auto encoded = encoder.encode(kind.bytes, kind.layout);
    REQUIRE(encoded);
    if (encoded->codec == Codec::kRaw) continue;
    Bytes stored(encoded->bytes.begin(), encoded->bytes.end());
    const Codec codec = encoded->codec;
    ChunkDecoder decoder;
    Bytes out(kind.bytes.size());
    for (std::size_t length = 0; length < stored.size(); ++length) {
      const auto decoded = decoder.decode(codec, kind.layout, ByteSpan(stored).first(length), out);
      REQUIRE_FALSE(decoded);
      CHECK(decoded.error().code == ErrorCode::kChunkCorrupt);
    }
    Bytes longer = stored;
    longer.push_back(std::byte{0});
    CHECK_FALSE(decoder.decode(codec, kind.layout, longer, out));
    // A chunk of another length. But zeros are zeros, however many.
    Bytes other(kind.bytes.size() + kind.layout.width);
    const bool constant = stored.size() == std::size_t{5} * kind.layout.width;
    CHECK(decoder.decode(codec, kind.layout, stored, other).has_value() == constant);
    for (std::size_t bit = 0; bit < 8 * stored.size(); ++bit) {
      stored[bit / 8] ^= std::byte{1} << (bit % 8);
      const bool same = decoder.decode(codec, kind.layout, stored, out) && out == kind.bytes;
      CHECK_FALSE(same);
      stored[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    CHECK(decoder.decode(codec, kind.layout, stored, out));
    CHECK(out == kind.bytes);
  }
}

// A frame of one block, with its seal. Types of blocks: 0 raw, 3 reserved.
Bytes sealed_frame(ByteSpan content, unsigned block_type) {
  Bytes frame(9 + content.size());
  store_le(frame.data(), std::uint32_t{0xFD2FB528});
  frame[4] = std::byte{0x20};  // one segment, and its size in a byte
  frame[5] = static_cast<std::byte>(content.size());
  frame[6] = static_cast<std::byte>(content.size() << 3 | block_type << 1 | 1u);
  std::copy(content.begin(), content.end(), frame.begin() + 9);
  const std::uint64_t seal = hash64(frame);
  frame.resize(frame.size() + kSealBytes);
  store_le(frame.data() + frame.size() - kSealBytes, seal);
  return frame;
}

TEST_CASE("The decoder itself refuses what a chunk's hash would find later") {
  const Bytes content = noise(16);
  Bytes out(16);
  ChunkDecoder decoder;
  const Bytes good = sealed_frame(content, 0);
  CHECK(decoder.decode(Codec::kZstd, kBytes, good, out));
  CHECK(out == content);
  CHECK_FALSE(decoder.decode(Codec::kZstd, kBytes, sealed_frame(content, 3), out));

  // A plane that takes more than its bytes, though it would decode.
  Bytes planes(8);
  store_le(planes.data(), static_cast<std::uint32_t>(good.size()));
  store_le(planes.data() + 4, std::uint32_t{1});
  planes.insert(planes.end(), good.begin(), good.end());
  planes.push_back(std::byte{7});
  Bytes elements(32);
  CHECK_FALSE(decoder.decode(Codec::kPlanes, kBF16, planes, elements));

  // Constant planes go with any number of elements, but not with half of one.
  planes.assign(10, std::byte{7});
  store_le(planes.data(), std::uint32_t{1});
  store_le(planes.data() + 4, std::uint32_t{1});
  CHECK(decoder.decode(Codec::kPlanes, kBF16, planes, elements));
  elements.resize(31);
  CHECK_FALSE(decoder.decode(Codec::kPlanes, kBF16, planes, elements));
}

TEST_CASE("There are no planes of single bytes, no patches without a base, and no codec 4") {
  Bytes out(64);
  ChunkDecoder decoder;
  Bytes planes(4 + 64);
  store_le(planes.data(), std::uint32_t{64});
  CHECK_FALSE(decoder.decode(Codec::kPlanes, kBytes, planes, out));
  CHECK_FALSE(decoder.decode(static_cast<Codec>(4), kBytes, planes, out));
  CHECK_FALSE(decoder.decode(Codec::kPatch, kBytes, planes, out));
  CHECK_FALSE(decoder.decode(Codec::kRaw, kBytes, planes, out));
}

}  // namespace
}  // namespace espalier
