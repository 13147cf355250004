// A sort for input that is usually sorted already.
#ifndef ESPALIER_BASE_MERGE_SORT_H_
#define ESPALIER_BASE_MERGE_SORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "espalier/base/function_ref.h"

namespace espalier {

/// Sorts `items` stably by merging runs that are already in order: n comparisons for sorted items,
/// n log2(runs) at worst. Writers list tensors in some order, so real files have few runs.
template <class Item, class Less>
void merge_sort_runs(std::vector<Item>& items, Less less) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i < items.size(); ++i) {
    if (less(items[i], items[i - 1])) ends.push_back(i);
  }
  if (ends.empty()) return;
  ends.push_back(items.size());
  const auto at = [](std::vector<Item>& from, std::size_t i) {
    return from.begin() + static_cast<std::ptrdiff_t>(i);
  };
  std::vector<Item> merged(items.size());
  while (ends.size() > 1) {
    std::size_t begin = 0;
    std::size_t kept = 0;
    for (std::size_t run = 0; run < ends.size(); run += 2) {
      const std::size_t middle = ends[run];
      const std::size_t end = run + 1 < ends.size() ? ends[run + 1] : middle;
      std::merge(at(items, begin), at(items, middle), at(items, middle), at(items, end),
                 at(merged, begin), less);
      ends[kept++] = end;
      begin = end;
    }
    ends.resize(kept);
    std::swap(items, merged);
  }
}

/// Whether one thing comes before another, by their numbers.
using NumberLess = FunctionRef<bool(std::uint32_t a, std::uint32_t b)>;

/// The same for the numbers of things. One copy of the code serves many orders: in WebAssembly, its
/// size counts for more than its speed.
void sort_numbers(std::vector<std::uint32_t>& numbers, NumberLess less);

/// Sorts `items` stably with that one copy, for std::stable_sort() takes 3 KB for each order.
template <class Item, class Less>
void sort_stably(std::vector<Item>& items, Less less) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0U);
  sort_numbers(order, [&](std::uint32_t a, std::uint32_t b) { return less(items[a], items[b]); });
  std::vector<Item> sorted;
  sorted.reserve(items.size());
  for (const std::uint32_t number : order) sorted.push_back(std::move(items[number]));
  items = std::move(sorted);
}

}  // namespace espalier

#endif  // ESPALIER_BASE_MERGE_SORT_H_
