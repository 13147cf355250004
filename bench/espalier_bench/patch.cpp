// Patches of simulated bf16 weights, beside the exclusive or compressed by zstd's level 1, and a
// copy: all from memory to memory, in chunks of 1 MiB, on one thread, in its processor time.
// "Checked" also takes XXH3-128 of each chunk afterwards, on both sides: trainers do so for each
// tensor.
//
// The weights are f32, normal in rows of 4,096 with a scale of their own. A step moves each by up
// to a learning rate, as Adam's do, and both states are rounded to bf16. The learning rate is the
// one that changes the wanted share of the bf16 elements, so the smaller a weight, the more likely
// it changes, and nearly always by one unit in the last place.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "command.h"
#include "report.h"
#include <time.h>
#include <zstd.h>

#include "espalier/base/little_endian.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/patch_encoder.h"

namespace espalier::bench {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kElements = std::size_t{1} << 24;
constexpr std::size_t kBytes = 2 * kElements;
constexpr std::size_t kRow = 4096;
constexpr ElementLayout kBF16{2, true};

using Bytes = std::vector<std::byte>;

std::uint64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

template <class Work>
std::uint64_t time_of(const Work& work) {
  const std::uint64_t start = thread_ns();
  work();
  return thread_ns() - start;
}

std::uint64_t median(Samples samples) {
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2];
}

std::uint16_t bf16(float x) {  // to the nearest, ties to even
  const auto bits = bits_as<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

struct Simulation {
  std::vector<float> weights;
  std::vector<float> steps;  // by the learning rate

  Simulation() : weights(kElements), steps(kElements) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    float scale = 0;
    for (std::size_t i = 0; i < kElements; ++i) {
      if (i % kRow == 0) scale = 0.02f * std::exp(0.3f * normal(random));
      weights[i] = normal(random) * scale;
      steps[i] = std::clamp(normal(random), -1.0f, 1.0f);
    }
  }

  std::uint16_t after(std::size_t i, float rate) const {
    return bf16(weights[i] - rate * steps[i]);
  }

  float rate_for(double share) const {
    float low = 1e-9f, high = 1.0f;
    constexpr std::size_t kEvery = 61;
    for (int i = 0; i < 40; ++i) {
      const float rate = std::sqrt(low * high);
      std::size_t changed = 0;
      for (std::size_t k = 0; k < kElements; k += kEvery) {
        changed += after(k, rate) != bf16(weights[k]) ? 1 : 0;
      }
      (static_cast<double>(changed * kEvery) < share * kElements ? low : high) = rate;
    }
    return high;
  }

  Bytes state(float rate) const {
    Bytes bytes(kBytes);
    for (std::size_t i = 0; i < kElements; ++i) store_le(bytes.data() + 2 * i, after(i, rate));
    return bytes;
  }
};

// The bytes that a code for single elements needs: whether it has changed, and its difference if
// so.
struct Limit {
  double share = 0;
  double bytes = 0;

  Limit(const Bytes& base, const Bytes& logical) {
    std::vector<std::uint64_t> counts(1 << 16);
    for (std::size_t i = 0; i < kBytes; i += 2) {
      ++counts[static_cast<std::uint16_t>(load_le<std::uint16_t>(logical.data() + i) -
                                          load_le<std::uint16_t>(base.data() + i))];
    }
    const auto n = static_cast<double>(kElements);
    for (const std::uint64_t count : counts) {
      if (count == 0) continue;
      bytes -= static_cast<double>(count) * std::log2(static_cast<double>(count) / n) / 8;
    }
    share = 1 - static_cast<double>(counts[0]) / n;
  }
};

std::size_t checked(std::size_t result) {
  if (ZSTD_isError(result) == 0) return result;
  std::fprintf(stderr, "espalier_bench: zstd: %s\n", ZSTD_getErrorName(result));
  std::exit(1);
}

void exclusive_or(std::byte* to, const std::byte* from) {
  for (std::size_t i = 0; i < kChunk; ++i) to[i] ^= from[i];
}

// Chunks one after the other in memory, as in a file.
class Stored {
 public:
  Stored() { bytes_.reserve(kBytes + kBytes / 8); }
  void clear() {
    bytes_.clear();
    ends_.clear();
  }
  void add(ByteSpan chunk) {
    bytes_.insert(bytes_.end(), chunk.begin(), chunk.end());
    ends_.push_back(bytes_.size());
  }
  ByteSpan chunk(std::size_t c) const {
    const std::size_t begin = c == 0 ? 0 : ends_[c - 1];
    return ByteSpan(bytes_).subspan(begin, ends_[c] - begin);
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  Bytes bytes_;
  std::vector<std::size_t> ends_;
};

void compare(const Simulation& simulation, double share, std::uint64_t repeat) {
  const Bytes base = simulation.state(0);
  const Bytes logical = simulation.state(simulation.rate_for(share));
  const Limit limit(base, logical);
  PatchEncoder encoder;
  ChunkDecoder decoder;
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd(ZSTD_createCCtx(), ZSTD_freeCCtx);
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> unzstd(ZSTD_createDCtx(),
                                                                    ZSTD_freeDCtx);
  Bytes live(kBytes), chunk(kChunk), compressed(ZSTD_compressBound(kChunk));
  Stored patches, xors;
  Samples encode_ns, apply_ns, xor_encode_ns, xor_apply_ns, copy_ns;
  Samples checked_apply_ns, checked_xor_apply_ns;
  std::uint64_t sum = 0;  // of hashes, so that they are taken
  const auto apply_all = [&](bool is_checked) {
    for (std::size_t c = 0; c < kBytes / kChunk; ++c) {
      const auto out = MutableByteSpan(live).subspan(c * kChunk, kChunk);
      must(decoder.apply_patch(kBF16, patches.chunk(c), out));
      if (is_checked) sum += hash128(out).low;
    }
    if (sum == 1) std::exit(3);
  };
  const auto apply_all_xors = [&](bool is_checked) {
    for (std::size_t c = 0; c < kBytes / kChunk; ++c) {
      const auto out = MutableByteSpan(live).subspan(c * kChunk, kChunk);
      const ByteSpan stored = xors.chunk(c);
      checked(
          ZSTD_decompressDCtx(unzstd.get(), chunk.data(), kChunk, stored.data(), stored.size()));
      exclusive_or(out.data(), chunk.data());
      if (is_checked) sum += hash128(out).low;
    }
    if (sum == 1) std::exit(3);
  };
  for (std::uint64_t i = 0; i < repeat; ++i) {
    patches.clear();
    encode_ns.push_back(time_of([&] {
      for (std::size_t at = 0; at < kBytes; at += kChunk) {
        const auto patch =
            must(encoder.encode(ByteSpan(base).subspan(at, kChunk),
                                ByteSpan(logical).subspan(at, kChunk), kBF16, kChunk));
        if (!patch) std::exit(3);
        patches.add(*patch);
      }
    }));
    xors.clear();
    xor_encode_ns.push_back(time_of([&] {
      for (std::size_t at = 0; at < kBytes; at += kChunk) {
        std::memcpy(chunk.data(), logical.data() + at, kChunk);
        exclusive_or(chunk.data(), base.data() + at);
        xors.add({compressed.data(),
                  checked(ZSTD_compressCCtx(zstd.get(), compressed.data(), compressed.size(),
                                            chunk.data(), kChunk, 1))});
      }
    }));
    copy_ns.push_back(time_of([&] {
      for (std::size_t at = 0; at < kBytes; at += kChunk) {
        std::memcpy(live.data() + at, base.data() + at, kChunk);
      }
    }));
    const auto time_apply = [&](Samples& samples, const auto& apply, bool is_checked) {
      live = base;
      samples.push_back(time_of([&] { apply(is_checked); }));
      if (live != logical) std::exit(3);
    };
    time_apply(apply_ns, apply_all, false);
    time_apply(xor_apply_ns, apply_all_xors, false);
    time_apply(checked_apply_ns, apply_all, true);
    time_apply(checked_xor_apply_ns, apply_all_xors, true);
  }
  const auto ratio = [](auto a, auto b) { return static_cast<double>(a) / static_cast<double>(b); };
  Report("patch")
      .with("changed_percent", 100 * limit.share)
      .with("raw_bytes", kBytes)
      .with("limit_bytes", static_cast<std::uint64_t>(limit.bytes))
      .with("patch_bytes", patches.size())
      .with("xor_zstd_bytes", xors.size())
      .with("raw_by_patch", ratio(kBytes, patches.size()))
      .with("patch_by_limit", ratio(patches.size(), limit.bytes))
      .with("xor_zstd_by_patch", ratio(xors.size(), patches.size()))
      .with("encode_gb_per_s", ratio(kBytes, median(encode_ns)))
      .with("apply_gb_per_s", ratio(kBytes, median(apply_ns)))
      .with("copy_gb_per_s", ratio(kBytes, median(copy_ns)))
      .with("encode_by_xor_zstd", ratio(median(xor_encode_ns), median(encode_ns)))
      .with("apply_by_xor_zstd", ratio(median(xor_apply_ns), median(apply_ns)))
      .with("apply_by_copy", ratio(median(copy_ns), median(apply_ns)))
      .with("checked_apply_by_xor_zstd",
            ratio(median(checked_xor_apply_ns), median(checked_apply_ns)))
      .with("encode_ns", encode_ns)
      .with("apply_ns", apply_ns)
      .with("xor_zstd_encode_ns", xor_encode_ns)
      .with("xor_zstd_apply_ns", xor_apply_ns)
      .with("copy_ns", copy_ns)
      .print();
}

}  // namespace

void patch(const Options& options) {
  const Simulation simulation;
  for (const double share : {0.001, 0.006, 0.015, 0.04, 0.2, 0.6}) {
    compare(simulation, share, options.repeat);
  }
}

}  // namespace espalier::bench
