#include "espalier/health/apart.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <doctest/doctest.h>

namespace espalier {
namespace {

using Figures = std::vector<double>;
using Which = std::vector<std::size_t>;

Which which(const Figures& figures, const ApartBounds& bounds) {
  const auto apart = find_apart(figures, bounds);
  return apart ? apart->which : Which();
}

TEST_CASE("apart: one of four needs ten spreads") {
  const ApartBounds bounds{.least = 0.1, .floor = 0.01};
  CHECK(which({1, 1.02, 1.04, 1.23}, bounds) == Which{3});  // 0.21 from 1.02, ten times 0.02
  CHECK(which({1, 1.02, 1.04, 1.21}, bounds).empty());
  CHECK(which({1, 1.02, 1.23}, bounds).empty());
  CHECK(which({1, 1, 1, 1.09}, bounds).empty());  // less than the least
  CHECK(which({1, 1, 1, 1.11}, bounds) == Which{3});
}

TEST_CASE("apart: what the others are is told") {
  const auto apart = find_apart(Figures{5, -100, 4, 6, 5, 5}, {.least = 1, .floor = 0.1});
  REQUIRE(apart);
  CHECK(apart->which == Which{1});
  CHECK(apart->middle == 5);
  CHECK(apart->smallest == 4);
  CHECK(apart->largest == 6);
}

TEST_CASE("apart: sides, and how much distances count") {
  const Figures figures = {0, 0, 0, 0, 0, -2};
  CHECK(which(figures, {.least = 1, .floor = 0.1, .side = Side::kBelow}) == Which{5});
  CHECK(which(figures, {.least = 1, .floor = 0.1, .side = Side::kAbove}).empty());
  CHECK(which(figures, {.least = 1, .floor = 0.1, .side = Side::kBoth, .far = 2.1}).empty());
}

TEST_CASE("apart: up to a tenth, on both sides") {
  Figures figures(30, 1.0);
  figures[3] = 10;
  figures[7] = -7;
  figures[20] = 8;
  CHECK(which(figures, {.least = 1, .floor = 0.1}) == Which{3, 7, 20});
  figures[21] = 8;  // four of thirty are no exceptions
  CHECK(which(figures, {.least = 1, .floor = 0.1}).empty());
}

// The definition, as docs/health.md has it.
Which by_definition(const Figures& figures, const ApartBounds& bounds) {
  const auto median = [](Figures values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  };
  const double middle = median(figures);
  Which order(figures.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(figures[a] - middle) > std::abs(figures[b] - middle);
  });
  for (std::size_t count = std::max<std::size_t>(1, order.size() / 10); count > 0; --count) {
    Figures others;
    for (std::size_t i = count; i < order.size(); ++i) others.push_back(figures[order[i]]);
    const double m = median(others);
    double spread = bounds.floor;
    for (const double x : others) spread = std::max(spread, std::abs(x - m));
    const double spreads = 2 + 8 / (static_cast<double>(figures.size()) - 3);
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) {
      const double distance = std::abs(figures[order[i]] - m);
      all = all && distance >= bounds.least && distance >= spreads * spread;
    }
    if (all) return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  return {};
}

TEST_CASE("apart: random figures, as the definition says") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::size_t found = 0;
  for (int round = 0; round < 2000; ++round) {
    Figures figures(4 + random() % 40);
    for (double& figure : figures) figure = normal(random);
    for (std::size_t i = 0; i < figures.size() / 8; ++i) {
      figures[random() % figures.size()] += 10 + normal(random);
    }
    const ApartBounds bounds{.least = 1, .floor = 0.1};
    const Which expected = by_definition(figures, bounds);
    found += expected.empty() ? 0 : 1;
    REQUIRE(which(figures, bounds) == expected);
  }
  CHECK(found > 200);
}

}  // namespace
}  // namespace espalier
