#include "espalier/base/merge_sort.h"

namespace espalier {

void sort_numbers(std::vector<std::uint32_t>& numbers, NumberLess less) {
  merge_sort_runs(numbers, less);
}

}  // namespace espalier
