// The part of abi.h that computes statistics.
#include <cstddef>
#include <vector>

#include "abi.h"
#include "statistics_record.h"
#include "whole_elements.h"

#include "espalier/tree/statistics.h"

namespace espalier::abi {
namespace {

static_assert(sizeof(Statistics) == 72 && offsetof(Statistics, deviation) == 64);
static_assert(sizeof(HistogramView) == 16);

}  // namespace

class Counting {
 public:
  explicit Counting(DType dtype) : statistics(dtype), whole_(dtype) {}

  void add(ByteSpan packed) {
    whole_.add(packed, [this](ByteSpan whole) { statistics.add(whole); });
  }
  void end() {
    whole_.end([this](ByteSpan whole) { statistics.add(whole); });
  }

  espalier::Statistics statistics;
  // The last returned histogram.
  std::vector<double> lower;
  std::vector<double> upper;
  std::vector<std::uint64_t> counts;

 private:
  WholeElements whole_;
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
  *out = statistics_of(counting->statistics.summary());
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
