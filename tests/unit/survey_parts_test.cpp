// What a survey measures beside statistics: each part against a plain count of the same.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/health/anchors.h"
#include "espalier/health/channels.h"
#include "espalier/health/distinct_values.h"
#include "espalier/health/equal_rows.h"
#include "espalier/health/runs.h"
#include "espalier/health/spectrum.h"

namespace espalier {
namespace {

template <class T>
ByteSpan bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Adds the values in random pieces.
template <class T, class Part>
void add_in_pieces(Part& part, const std::vector<T>& values, std::mt19937& random,
                   std::size_t most = 4096) {
  for (std::size_t at = 0; at < values.size();) {
    const std::size_t count = std::min<std::size_t>(values.size() - at, 1 + random() % most);
    part.add(bytes_of(values).subspan(at * sizeof(T), count * sizeof(T)));
    at += count;
  }
}

std::vector<float> noise(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

template <class T>
void check_runs() {
  std::mt19937 random(5);
  const std::size_t least = kLeastRunBytes / sizeof(T);
  for (int round = 0; round < 300; ++round) {
    std::vector<T> values;
    while (values.size() < 6 * least) {
      const std::size_t sizes[] = {1, 3, least - 1, least, least + 1, 2 * least};
      const auto value = static_cast<T>(random() % 3);
      values.insert(values.end(), sizes[random() % 6], value);
    }
    Runs expected;
    for (std::size_t i = 0; i < values.size();) {
      std::size_t end = i;
      while (end < values.size() && values[end] == values[i]) ++end;
      if (end - i >= least) {
        ++expected.count;
        expected.elements += end - i;
        if (end - i > expected.size) {
          expected.begin = i;
          expected.size = end - i;
        }
      }
      i = end;
    }
    RunFinder finder(sizeof(T));
    add_in_pieces(finder, values, random);
    const Runs runs = finder.runs();
    REQUIRE(runs.count == expected.count);
    REQUIRE(runs.elements == expected.elements);
    REQUIRE(runs.begin == expected.begin);
    REQUIRE(runs.size == expected.size);
  }
}

TEST_CASE("runs: as a plain count has them, in any pieces") {
  check_runs<std::uint8_t>();
  check_runs<std::uint16_t>();
  check_runs<std::uint32_t>();
  check_runs<std::uint64_t>();
}

TEST_CASE("distinct values: as a set has them, up to the bound") {
  std::mt19937 random(6);
  for (const std::uint32_t most : {1U, 2U, 100U, 4000U, 100000U}) {
    std::vector<std::uint32_t> values(20000);
    for (std::uint32_t& value : values)
      value = static_cast<std::uint32_t>(random() % most) * 0x9e3779b1U;
    const std::set<std::uint32_t> all(values.begin(), values.end());
    DistinctValues distinct(sizeof(std::uint32_t));
    add_in_pieces(distinct, values, random);
    CHECK(distinct.count() == std::min(all.size(), DistinctValues::kMost));
  }
  std::vector<std::uint64_t> wide = {0, 1, std::uint64_t{1} << 40, 0, 1};
  DistinctValues distinct(sizeof(std::uint64_t));
  add_in_pieces(distinct, wide, random);
  CHECK(distinct.count() == 3);
}

TEST_CASE("anchors: the same bytes have the same, at any place and in any pieces") {
  std::mt19937 random(7);
  const std::vector<float> values = noise(60000, 1);
  AnchorFinder whole(sizeof(float), values.size());
  add_in_pieces(whole, values, random);
  const std::vector<Anchor> anchors = whole.take();
  CHECK(anchors.size() > values.size() / 128);
  CHECK(anchors.size() < values.size() / 32);
  const std::vector<float> part(values.begin() + 12345, values.begin() + 34567);
  AnchorFinder inside(sizeof(float), part.size());
  add_in_pieces(inside, part, random, 100);
  std::vector<Anchor> expected;
  for (const Anchor& anchor : anchors) {
    if (anchor.at >= 12345 && anchor.at + 8 <= 34567) expected.push_back(anchor);
  }
  const std::vector<Anchor> found = inside.take();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    REQUIRE(found[i].hash == expected[i].hash);
    REQUIRE(found[i].at + 12345 == expected[i].at);
  }
  AnchorFinder flat(sizeof(float), 10000);
  add_in_pieces(flat, std::vector<float>(10000, 1), random);
  CHECK(flat.take().empty());
  // One of 1,024 in large tensors: among those that a small one has.
  AnchorFinder large(sizeof(float), std::uint64_t{1} << 21);
  add_in_pieces(large, values, random);
  for (const Anchor& anchor : large.take()) {
    REQUIRE(std::any_of(anchors.begin(), anchors.end(), [&](const Anchor& other) {
      return other.hash == anchor.hash && other.at == anchor.at;
    }));
  }
}

TEST_CASE("equal rows: those that are the same, and not of one value") {
  std::mt19937 random(8);
  std::vector<float> values = noise(100 * 24, 2);
  const auto copy_row = [&](std::size_t from, std::size_t to) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from * 24), 24,
                values.begin() + static_cast<std::ptrdiff_t>(to * 24));
  };
  const auto rows = [&] {
    RowComparer comparer(sizeof(float), 24);
    add_in_pieces(comparer, values, random, 60);
    return comparer.equal_rows();
  };
  CHECK(rows().repeated == 0);
  for (const std::size_t flat : {3U, 4U, 5U}) {
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(flat * 24), 24, 7.0F);
  }
  CHECK(rows().repeated == 0);
  copy_row(98, 97);
  copy_row(98, 99);
  CHECK(rows().repeated == 2);
  CHECK(rows().first == 97);
  CHECK(rows().are_at_end);
  copy_row(10, 20);
  CHECK(rows().repeated == 3);
  CHECK(rows().first == 10);
  CHECK(!rows().are_at_end);
}

double weaker_half(std::size_t rows, std::size_t columns, std::size_t rank) {
  const std::vector<float> left = noise(rows * rank, 3);
  const std::vector<float> right = noise(rank * columns, 4);
  std::vector<float> product(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < rank; ++k) {
      for (std::size_t j = 0; j < columns; ++j) {
        product[i * columns + j] += left[i * rank + k] * right[k * columns + j];
      }
    }
  }
  Spectrum spectrum(rows, columns);
  const std::size_t piece = columns / 3 + 1;
  for (std::size_t at = 0; at < product.size(); at += piece) {
    spectrum.add(std::span(product).subspan(at, std::min(piece, product.size() - at)));
  }
  return spectrum.weaker_half().value();
}

TEST_CASE("spectrum: a matrix of low rank has nothing in half of all directions") {
  for (const std::size_t rank : {1U, 4U, 12U}) CHECK(weaker_half(200, 96, rank) < -8);
  CHECK(weaker_half(200, 96, 96) > -1.5);
  CHECK(weaker_half(3000, 64, 64) > -1.5);  // of which each third row is looked at
  Spectrum zeros(64, 64);
  zeros.add(std::vector<float>(64 * 64));
  CHECK(!zeros.weaker_half());
}

TEST_CASE("channels: what is dead, and where") {
  const auto channels = [](const std::set<std::size_t>& dead) {
    std::vector<float> values = noise(50 * 20, 9);
    for (const std::size_t row : dead) {
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row * 20), 20, 0.0F);
    }
    ChannelMeter meter({50, 20, 2});
    meter.add(values);
    return meter.rows(5);
  };
  Channels rows = channels({0, 7, 8, 48, 49});
  CHECK(rows.dead == 5);
  CHECK(rows.first_dead == 0);
  CHECK(rows.dead_at_end == 2);
  CHECK(rows.dead_inside == 2);
  CHECK(rows.live[0] == (((std::uint64_t{1} << 48) - 1) & ~std::uint64_t{0x181}));
  CHECK(channels({}).dead_inside == 0);
  CHECK(channels({}).live.empty());
  CHECK(channels({5}).first_dead == 5);
}

TEST_CASE("channels: loud rows, and one element that is loud") {
  std::vector<float> values = noise(100 * 64, 10);
  const auto rows = [&] {
    ChannelMeter meter({100, 64, 2});
    meter.add(values);
    double largest = 0;
    for (const float value : values) largest = std::max<double>(largest, std::abs(value));
    return meter.rows(largest);
  };
  CHECK(!rows().loud);
  for (std::size_t i = 0; i < 64; ++i) values[40 * 64 + i] *= 20;
  REQUIRE(rows().loud);
  CHECK(rows().loud->count == 1);
  CHECK(rows().loud->first == 40);
  CHECK(rows().loud->ratio > 15);
  CHECK(rows().loud_alone);
  CHECK(rows().greatest == doctest::Approx(rows().loud->ratio));
  CHECK(rows().spread > 1.2);
  values = noise(100 * 64, 10);
  for (std::size_t i = 0; i < 64; ++i)
    values[i] *= 20;  // the first position of a model is often so
  CHECK(rows().loud);
  CHECK(!rows().loud_alone);
  values = noise(100 * 64, 10);
  values[70] = 400;
  CHECK(!rows().loud);
}

}  // namespace
}  // namespace espalier
