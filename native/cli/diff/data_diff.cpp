#include "cli/diff/data_diff.h"

#include <algorithm>
#include <complex>

#include "cli/terminal/progress.h"
#include "espalier/tree/elements.h"
#include "files/open/chunk_groups.h"

namespace espalier::cli {
namespace {

struct ComparedGroup {
  std::size_t pair;
  ChunkGroup group;
  bool is_equal;  // by hashes
};

// The elements that begin in a group. Its last byte may have bits beyond the tensor's last element.
std::uint64_t elements_of(const TensorRef& tensor, const ChunkGroup& group, std::uint64_t bytes) {
  const std::uint32_t bits = dtype_bits(tensor.dtype());
  const std::uint64_t before = elements_in(group.first_chunk * kChunkBytes, bits);
  return std::min(elements_in(bytes, bits), tensor.elements() - before);
}

template <class T>
DataDiff compare_elements(DType dtype, ByteSpan a, ByteSpan b, const Tolerance& tolerance) {
  DataDiff diff;
  diff.differs = true;
  const auto count = static_cast<std::size_t>(elements_in(a.size(), dtype_bits(dtype)));
  std::vector<T> left(count);
  std::vector<T> right(count);
  decode_elements<T>(dtype, a, 0, left);
  decode_elements<T>(dtype, b, 0, right);
  for (std::size_t i = 0; i < count; ++i) {
    if (is_close(left[i], right[i], tolerance)) continue;
    ++diff.differing;
    if (const auto apart = distance(left[i], right[i])) {
      diff.max_delta = larger_distance(diff.max_delta, *apart);
    } else {
      ++diff.not_comparable;
    }
  }
  if (diff.differing == 0) diff.differs = false;
  return diff;
}

// The same without a tolerance.
DataDiff compare_exactly(DType dtype, ByteSpan a, ByteSpan b, std::uint64_t count) {
  DataDiff diff;
  diff.delta.add(dtype, a, b, count);
  diff.differs = !std::ranges::equal(a, b);
  diff.differing = diff.delta.changed();
  diff.max_delta = diff.delta.max_delta();
  diff.not_comparable = diff.delta.not_comparable();
  return diff;
}

DataDiff compare_bytes(DType dtype, ByteSpan a, ByteSpan b, const Tolerance& tolerance) {
  if (std::ranges::equal(a, b)) return {};
  switch (element_type(dtype)) {
    case ElementType::kInt64:
      return compare_elements<std::int64_t>(dtype, a, b, tolerance);
    case ElementType::kUint64:
      return compare_elements<std::uint64_t>(dtype, a, b, tolerance);
    case ElementType::kFloat64:
      return compare_elements<double>(dtype, a, b, tolerance);
    case ElementType::kComplex128:
      return compare_elements<std::complex<double>>(dtype, a, b, tolerance);
    case ElementType::kNone:
      break;
  }
  DataDiff diff;
  diff.differs = true;
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
  differs = differs || other.differs;
  differing += other.differing;
  max_delta = larger_distance(max_delta, other.max_delta);
  not_comparable += other.not_comparable;
  delta.merge(other.delta);
}

tl::expected<std::vector<DataDiff>, Failure> compare_data(const NamedFile& a, const NamedFile& b,
                                                          std::span<const TensorPair> pairs,
                                                          const Tolerance& tolerance, Scope scope,
                                                          unsigned threads) {
  std::vector<ComparedGroup> tasks;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const ChunkGroup& group : chunk_groups_of(pairs[i].first)) {
      const bool is_equal = same_hashes(pairs[i], group);
      if (is_equal && scope == Scope::kChangedChunks) continue;
      tasks.push_back({i, group, is_equal});
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
        const auto& [number, group, is_equal] = tasks[i];
        const TensorPair& pair = pairs[number];
        const DType dtype = pair.first.dtype();
        failed[i] = &a;
        auto left = read_group(a.file, pair.first, group, buffers_a[worker]);
        if (!left) return propagate(left);
        ByteSpan right = *left;
        if (!is_equal) {
          failed[i] = &b;
          auto read = read_group(b.file, pair.second, group, buffers_b[worker]);
          if (!read) return propagate(read);
          right = *read;
        }
        failed[i] = nullptr;
        parts[i] =
            tolerance.is_zero() && dtype != DType::kOpaque
                ? compare_exactly(dtype, *left, right, elements_of(pair.first, group, left->size()))
                : compare_bytes(dtype, *left, right, tolerance);
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
