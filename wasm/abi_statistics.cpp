// The part of abi.h that computes statistics.
#include <cmath>
#include <variant>
#include <vector>

#include "abi.h"

#include "espalier/tree/statistics.h"

namespace espalier::abi {
namespace {

static_assert(sizeof(Statistics) == 72 && offsetof(Statistics, deviation) == 64);
static_assert(sizeof(HistogramView) == 16);

}  // namespace

class Counting {
 public:
  explicit Counting(DType dtype) : statistics(dtype), dtype_(dtype) {}

  // Elements of six bits continue across the ends of chunks: incomplete ones wait here.
  void add(ByteSpan packed) {
    if (dtype_bits(dtype_) != 6) return statistics.add(packed);
    waiting_.insert(waiting_.end(), packed.begin(), packed.end());
    const std::size_t whole = waiting_.size() / 3 * 3;
    statistics.add(ByteSpan(waiting_).first(whole));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(whole));
  }

  // The last piece may end in the middle of three bytes.
  void end() {
    statistics.add(waiting_);
    waiting_.clear();
  }

  espalier::Statistics statistics;
  // The last returned histogram.
  std::vector<double> lower;
  std::vector<double> upper;
  std::vector<std::uint64_t> counts;

 private:
  DType dtype_;
  std::vector<std::byte> waiting_;
};

Counting* espalier_statistics(std::uint32_t dtype) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  return new Counting(known.value_or(DType::kOpaque));
}

void espalier_statistics_add(Counting* counting, const std::byte* packed, std::uint32_t length) {
  counting->add({packed, length});
}

void espalier_statistics_result(Counting* counting, Statistics* out) {
  counting->end();
  const Summary summary = counting->statistics.summary();
  *out = {};
  out->finite = summary.finite;
  out->zeros = summary.zeros;
  out->nans = summary.nans;
  out->infinities = summary.infinities;
  if (summary.min && summary.max) {
    const auto bits = [](const Number& number) {
      return std::visit([](auto value) { return bits_as<std::uint64_t>(value); }, number);
    };
    out->range_kind = static_cast<std::uint32_t>(summary.min->index()) + 1;
    out->min = bits(*summary.min);
    out->max = bits(*summary.max);
  }
  out->mean = summary.mean;
  out->deviation = summary.deviation();
}

void espalier_statistics_histogram(Counting* counting, HistogramView* out) {
  counting->end();
  counting->lower.clear();
  counting->upper.clear();
  counting->counts.clear();
  for (const Histogram::Bucket& bucket : counting->statistics.histogram().buckets) {
    counting->lower.push_back(bucket.lower);
    counting->upper.push_back(bucket.upper);
    counting->counts.push_back(bucket.count);
  }
  *out = {counting->lower.data(), counting->upper.data(), counting->counts.data(),
          static_cast<std::uint32_t>(counting->counts.size())};
}

void espalier_statistics_free(Counting* counting) { delete counting; }

}  // namespace espalier::abi
