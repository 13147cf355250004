#include "espalier/health/equal_rows.h"

#include <algorithm>
#include <cstring>

namespace espalier {

void RowComparer::add(ByteSpan packed) {
  while (!packed.empty()) {
    const auto wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(row_bytes_ - begun_.size(), packed.size()));
    const ByteSpan part = packed.first(wanted);
    packed = packed.subspan(wanted);
    if (part.size() == row_bytes_) {
      end_row(part);
      continue;
    }
    begun_.insert(begun_.end(), part.begin(), part.end());
    if (begun_.size() < row_bytes_) return;
    end_row(begun_);
    begun_.clear();
  }
}

void RowComparer::end_row(ByteSpan row) {
  const std::uint64_t number = number_++;
  const bool is_flat = std::memcmp(row.data(), row.data() + width_, row.size() - width_) == 0;
  if (!is_flat) rows_.push_back({hash64(row), number});
}

EqualRows RowComparer::equal_rows() const {
  EqualRows equal;
  std::vector<Row> rows = rows_;
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.number < b.number;
  });
  std::vector<std::uint64_t> same;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool is_after = i > 0 && rows[i - 1].hash == rows[i].hash;
    const bool is_before = i + 1 < rows.size() && rows[i + 1].hash == rows[i].hash;
    if (is_after) ++equal.repeated;
    if (is_after || is_before) same.push_back(rows[i].number);
  }
  if (same.empty()) return equal;
  const auto [first, last] = std::minmax_element(same.begin(), same.end());
  equal.first = *first;
  equal.are_at_end = *last + 1 == number_ && *last - *first + 1 == same.size();
  return equal;
}

}  // namespace espalier
