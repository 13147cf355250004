#include "espalier/health/apart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "espalier/health/kinds.h"

namespace espalier {
namespace {

// At most one of so many lies apart.
constexpr std::size_t kOneOf = 10;

// Figures in ascending order.
class Sorted {
 public:
  explicit Sorted(std::span<const double> figures) : figures_(figures), order_(figures.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return figures[a] < figures[b]; });
  }

  std::size_t number(std::size_t rank) const { return order_[rank]; }
  double at(std::size_t rank) const { return figures_[order_[rank]]; }
  // Of those from `begin` to `end`.
  double median(std::size_t begin, std::size_t end) const {
    const std::size_t middle = begin + (end - begin) / 2;
    if ((end - begin) % 2 == 1) return at(middle);
    return at(middle - 1) + (at(middle) - at(middle - 1)) / 2;
  }

 private:
  std::span<const double> figures_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::optional<Apart> find_apart(std::span<const double> figures, const ApartBounds& bounds) {
  const std::size_t n = figures.size();
  if (n < kSiblings) return std::nullopt;
  const Sorted sorted(figures);
  const double middle = sorted.median(0, n);
  const std::size_t most = std::max<std::size_t>(1, n / kOneOf);
  // The farthest first. What is left after some of them lies side by side.
  std::vector<std::size_t> farthest;
  std::vector<std::size_t> begins = {0};
  for (std::size_t begin = 0, end = n; farthest.size() < most;) {
    const bool is_above =
        std::abs(sorted.at(end - 1) - middle) > std::abs(sorted.at(begin) - middle);
    farthest.push_back(sorted.number(is_above ? --end : begin++));
    begins.push_back(begin);
  }
  const double spreads = 2 + 8 / static_cast<double>(n - 3);
  for (std::size_t count = most; count > 0; --count) {
    const std::size_t begin = begins[count];
    const std::size_t end = n - count + begin;
    Apart apart;
    apart.middle = sorted.median(begin, end);
    apart.smallest = sorted.at(begin);
    apart.largest = sorted.at(end - 1);
    const double spread =
        std::max({apart.middle - apart.smallest, apart.largest - apart.middle, bounds.floor});
    const double least = bounds.far * std::max(bounds.least, spreads * spread);
    const auto first = farthest.begin();
    const auto last = first + static_cast<std::ptrdiff_t>(count);
    // The nearest are most likely not to be.
    const bool are_apart = std::all_of(std::reverse_iterator(last), std::reverse_iterator(first),
                                       [&](std::size_t which) {
                                         const double distance = figures[which] - apart.middle;
                                         switch (bounds.side) {
                                           case Side::kAbove:
                                             return distance >= least;
                                           case Side::kBelow:
                                             return -distance >= least;
                                           default:
                                             return std::abs(distance) >= least;
                                         }
                                       });
    if (!are_apart) continue;
    apart.which.assign(first, last);
    return apart;
  }
  return std::nullopt;
}

}  // namespace espalier
