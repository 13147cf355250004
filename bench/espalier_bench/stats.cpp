// Statistics of elements in memory, piece by piece, with their summary and histogram at the end.
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "command.h"
#include "report.h"

#include "espalier/base/little_endian.h"
#include "espalier/bytes.h"
#include "espalier/tree/statistics.h"

namespace espalier::bench {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 20;
constexpr std::size_t kPiece = std::size_t{1} << 20;

// Large enough that branch predictors cannot memorise it.
std::vector<float> weights() {
  std::vector<float> numbers(std::size_t{1} << 20);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::generate(numbers.begin(), numbers.end(), [&] { return normal(random); });
  return numbers;
}

std::uint16_t bf16(float x) { return static_cast<std::uint16_t>(bits_as<std::uint32_t>(x) >> 16); }

// Truncated, and 0 instead of subnormal numbers.
std::uint16_t f16(float x) {
  const auto bits = bits_as<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7fffffff;
  const std::uint32_t kept = size < 0x38800000 ? 0 : (size >> 13) - (112 << 10);
  return static_cast<std::uint16_t>(bits >> 16 & 0x8000) | static_cast<std::uint16_t>(kept);
}

std::int8_t i8(float x) {
  return static_cast<std::int8_t>(std::clamp(std::round(x * 2000), -127.0f, 127.0f));
}

template <class T, class Convert>
std::vector<std::byte> packed(Convert convert) {
  static const std::vector<float> numbers = weights();
  std::vector<std::byte> bytes(kBytes);
  for (std::size_t i = 0; i < kBytes / sizeof(T); ++i) {
    store_le<T>(bytes.data() + i * sizeof(T), convert(numbers[i % numbers.size()]));
  }
  return bytes;
}

}  // namespace

void stats(const Options& options) {
  Report report("stats");
  std::uint64_t finite = 0;
  const auto time = [&](DType dtype, const std::vector<std::byte>& bytes) {
    Samples stats_ns;
    for (std::uint64_t i = 0; i < options.repeat; ++i) {
      const auto start = Clock::now();
      Statistics statistics(dtype);
      for (std::size_t at = 0; at < kBytes; at += kPiece) {
        statistics.add(ByteSpan(bytes).subspan(at, kPiece));
      }
      finite += statistics.summary().finite + statistics.histogram().buckets.size();
      stats_ns.push_back(nanoseconds_since(start));
    }
    const std::string name(dtype_name(dtype));
    report.with(name + "_ns", stats_ns);
    std::nth_element(stats_ns.begin(), stats_ns.begin() + stats_ns.size() / 2, stats_ns.end());
    report.with(name + "_gb_per_s", kBytes / static_cast<double>(stats_ns[stats_ns.size() / 2]));
  };
  time(DType::kBF16, packed<std::uint16_t>(bf16));
  time(DType::kF16, packed<std::uint16_t>(f16));
  time(DType::kF32, packed<float>([](float x) { return x; }));
  time(DType::kI8, packed<std::int8_t>(i8));
  report.with("checksum", finite).print();
}

}  // namespace espalier::bench
