#include "data_diff.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>

#include "chunk_groups.h"
#include "progress.h"

#include "espalier/tree/elements.h"

namespace espalier::cli {
namespace {

struct Task {
  std::size_t pair;
  ChunkGroup group;
};

// The distance between two elements; nothing if it is not finite.
template <class T>
std::optional<Number> delta(T a, T b) {
  // The distance of any two integers fits in unsigned arithmetic.
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  return Number(a > b ? x - y : y - x);
}

bool is_finite(double x) { return std::isfinite(x); }
bool is_finite(std::complex<double> z) { return is_finite(z.real()) && is_finite(z.imag()); }

// Infinite if the distance of two finite numbers exceeds the largest double.
template <class T>
std::optional<Number> distance_of(T a, T b) {
  if (!is_finite(a) || !is_finite(b)) return std::nullopt;
  return Number(std::abs(a - b));
}
std::optional<Number> delta(double a, double b) { return distance_of(a, b); }
std::optional<Number> delta(std::complex<double> a, std::complex<double> b) {
  return distance_of(a, b);
}

template <class T>
bool is_nan(T) {
  return false;
}
bool is_nan(double x) { return std::isnan(x); }
bool is_nan(std::complex<double> z) { return std::isnan(z.real()) || std::isnan(z.imag()); }

// The larger of two distances. All distances of a tensor have one type. The initial 0.0 of a
// DataDiff may have another type, and is less than all of them.
Number larger(const Number& a, const Number& b) {
  return a.index() == b.index() ? std::max(a, b) : a.index() < b.index() ? a : b;
}

template <class T>
DataDiff compare_elements(DType dtype, ByteSpan a, ByteSpan b) {
  DataDiff diff;
  diff.bytes_differ = true;
  const auto count = static_cast<std::size_t>(elements_in(a.size(), dtype_bits(dtype)));
  std::vector<T> left(count);
  std::vector<T> right(count);
  decode_elements<T>(dtype, a, 0, left);
  decode_elements<T>(dtype, b, 0, right);
  for (std::size_t i = 0; i < count; ++i) {
    if (left[i] == right[i] || (is_nan(left[i]) && is_nan(right[i]))) continue;
    ++diff.differing;
    if (const auto distance = delta(left[i], right[i])) {
      diff.max_delta = larger(diff.max_delta, *distance);
    } else {
      ++diff.not_comparable;
    }
  }
  return diff;
}

DataDiff compare_bytes(DType dtype, ByteSpan a, ByteSpan b) {
  if (std::ranges::equal(a, b)) return {};
  switch (element_type(dtype)) {
    case ElementType::kInt64:
      return compare_elements<std::int64_t>(dtype, a, b);
    case ElementType::kUint64:
      return compare_elements<std::uint64_t>(dtype, a, b);
    case ElementType::kFloat64:
      return compare_elements<double>(dtype, a, b);
    case ElementType::kComplex128:
      return compare_elements<std::complex<double>>(dtype, a, b);
    case ElementType::kNone:
      break;
  }
  DataDiff diff;
  diff.bytes_differ = true;
  return diff;
}

bool same_hashes(const TensorPair& pair, const ChunkGroup& group) {
  const Catalog& a = pair.first.catalog();
  const Catalog& b = pair.second.catalog();
  if (!a.has_hashes() || !b.has_hashes()) return false;
  for (std::uint32_t i = group.first_chunk; i < group.first_chunk + group.chunk_count; ++i) {
    if (a.tables().chunks[pair.first.first_chunk() + i].hash !=
        b.tables().chunks[pair.second.first_chunk() + i].hash) {
      return false;
    }
  }
  return true;
}

}  // namespace

void DataDiff::merge(const DataDiff& other) {
  bytes_differ = bytes_differ || other.bytes_differ;
  differing += other.differing;
  max_delta = larger(max_delta, other.max_delta);
  not_comparable += other.not_comparable;
}

tl::expected<std::vector<DataDiff>, Failure> compare_data(const NamedFile& a, const NamedFile& b,
                                                          std::span<const TensorPair> pairs,
                                                          unsigned threads) {
  std::vector<Task> tasks;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const ChunkGroup& group : chunk_groups_of(pairs[i].first)) {
      if (same_hashes(pairs[i], group)) continue;
      tasks.push_back({i, group});
      bytes += group_bytes(pairs[i].first, group);
    }
  }
  ProgressBar progress("comparing", bytes);
  std::vector<DataDiff> parts(tasks.size());
  std::vector<const NamedFile*> failed(tasks.size());
  std::vector<ChunkGroupBuffer> buffers_a(thread_count(threads));
  std::vector<ChunkGroupBuffer> buffers_b(thread_count(threads));
  auto done =
      parallel_for(tasks.size(), threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const TensorPair& pair = pairs[tasks[i].pair];
        failed[i] = &a;
        auto left = read_group(a.file, pair.first, tasks[i].group, buffers_a[worker]);
        if (!left) return propagate(left);
        failed[i] = &b;
        auto right = read_group(b.file, pair.second, tasks[i].group, buffers_b[worker]);
        if (!right) return propagate(right);
        failed[i] = nullptr;
        parts[i] = compare_bytes(pair.first.dtype(), *left, *right);
        progress.add(left->size());
        return {};
      });
  if (!done) {
    // The error is that of the first task that failed.
    const auto first = std::find_if(failed.begin(), failed.end(), [](auto* file) { return file; });
    return about((*first)->name, done);
  }
  std::vector<DataDiff> diffs(pairs.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) diffs[tasks[i].pair].merge(parts[i]);
  return diffs;
}

}  // namespace espalier::cli
