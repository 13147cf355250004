#include "espalier/report/tensor_delta.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/report/layer_path.h"

namespace {

using espalier::DType;
using espalier::Number;
using espalier::TensorDelta;

constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
TensorDelta compare(DType dtype, const std::vector<T>& before, const std::vector<T>& after) {
  TensorDelta delta;
  delta.add(dtype, std::as_bytes(std::span(before)), std::as_bytes(std::span(after)),
            before.size());
  return delta;
}

TensorDelta doubles(const std::vector<double>& before, const std::vector<double>& after) {
  return compare(DType::kF64, before, after);
}

TEST_CASE("norms, relative change and cosine") {
  const TensorDelta delta = doubles({3, 4, 0}, {3, 0, 0});
  CHECK(delta.elements() == 3);
  CHECK(delta.changed() == 1);
  CHECK(delta.not_comparable() == 0);
  CHECK(delta.max_delta() == Number(4.0));
  CHECK(delta.delta_norm() == 4);
  CHECK(delta.before_norm() == 5);
  CHECK(delta.after_norm() == 3);
  CHECK(delta.relative() == 0.8);
  CHECK(*delta.cosine() == doctest::Approx(0.6));
}

TEST_CASE("zeros have no direction, and a change from them is infinite") {
  CHECK(doubles({0, 0}, {0, 2}).relative() == kInf);
  CHECK(!doubles({0, 0}, {0, 2}).cosine());
  CHECK(doubles({0, 0}, {0, -0.0}).relative() == 0);
  CHECK(doubles({0, 0}, {0, -0.0}).changed() == 0);
  CHECK(*doubles({1, 2}, {-2, -4}).cosine() == doctest::Approx(-1));
}

TEST_CASE("what is not finite has no distance, and counts if it changed") {
  const TensorDelta delta = doubles({kNan, kInf, 1, -kInf, 2}, {kNan, kInf, kNan, kInf, 5});
  CHECK(delta.changed() == 3);
  CHECK(delta.not_comparable() == 2);
  CHECK(delta.delta_norm() == 3);
  CHECK(delta.before_norm() == 2);
}

TEST_CASE("squares neither overflow nor underflow") {
  for (const double unit : {1e300, 1e-300, 5e-324, 1.0, 0x1p-450, 0x1p450}) {
    const TensorDelta delta = doubles({3 * unit, 4 * unit}, {3 * unit, 0});
    CHECK(delta.relative() == doctest::Approx(0.8));
    CHECK(delta.delta_norm() == doctest::Approx(4 * unit));
    CHECK(*delta.cosine() == doctest::Approx(0.6));
  }
  // A small change of large numbers, and numbers of all sizes.
  CHECK(doubles({1e200}, {1e200 + 1e185}).relative() == doctest::Approx(1e-15));
  CHECK(doubles({1, 1e-200}, {1, 3e-200}).delta_norm() == doctest::Approx(2e-200));
  CHECK(*doubles({1e300, 1e-300}, {1e-300, 1e300}).cosine() == doctest::Approx(0));
  // The difference of two finite numbers may be infinite; their norms are not.
  const TensorDelta far = doubles({kMax}, {-kMax});
  CHECK(far.max_delta() == Number(kInf));
  CHECK(far.relative() == doctest::Approx(2));
  CHECK(*far.cosine() == -1);
}

TEST_CASE("distances of integers are exact") {
  using Int = std::int64_t;
  const Int big = Int{1} << 62;
  CHECK(compare<Int>(DType::kI64, {big}, {big + 1}).max_delta() == Number(std::uint64_t{1}));
  CHECK(compare<Int>(DType::kI64, {big}, {big + 1}).delta_norm() == 1);
  const TensorDelta far = compare<Int>(DType::kI64, {std::numeric_limits<Int>::min()},
                                       {std::numeric_limits<Int>::max()});
  CHECK(far.max_delta() == Number(~std::uint64_t{0}));
}

TEST_CASE("a complex number is one element") {
  using Complex = std::complex<double>;
  const TensorDelta delta =
      compare<Complex>(DType::kC128, {{1, 2}, {0, 0}, {kNan, 1}}, {{4, 6}, {0, 0}, {kNan, 2}});
  CHECK(delta.elements() == 3);
  CHECK(delta.changed() == 1);
  CHECK(delta.max_delta() == Number(5.0));
  CHECK(delta.delta_norm() == 5);
}

TEST_CASE("bits after the last element do not count") {
  const std::vector<std::uint8_t> before = {0x21, 0x03};
  const std::vector<std::uint8_t> after = {0x21, 0xf3};
  TensorDelta delta;
  delta.add(DType::kU4, std::as_bytes(std::span(before)), std::as_bytes(std::span(after)), 3);
  CHECK(delta.elements() == 3);
  CHECK(delta.changed() == 0);
}

TEST_CASE("opaque blocks have no elements") {
  const std::vector<std::uint8_t> bytes(18);
  TensorDelta delta;
  delta.add(DType::kOpaque, std::as_bytes(std::span(bytes)), std::as_bytes(std::span(bytes)), 0);
  CHECK(delta.elements() == 0);
}

TEST_CASE("pieces add up") {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> before(5000);
  std::vector<double> after(before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    before[i] = normal(random);
    after[i] = i % 3 == 0 ? before[i] : before[i] + normal(random) / 100;
  }
  const TensorDelta whole = doubles(before, after);
  TensorDelta parts;
  for (std::size_t i = 0; i < before.size(); i += 1000) {
    parts.merge(doubles({before.begin() + static_cast<std::ptrdiff_t>(i),
                         before.begin() + static_cast<std::ptrdiff_t>(i + 1000)},
                        {after.begin() + static_cast<std::ptrdiff_t>(i),
                         after.begin() + static_cast<std::ptrdiff_t>(i + 1000)}));
  }
  CHECK(parts.elements() == whole.elements());
  CHECK(parts.changed() == whole.changed());
  CHECK(parts.max_delta() == whole.max_delta());
  CHECK(parts.relative() == doctest::Approx(whole.relative()).epsilon(1e-14));
  CHECK(*parts.cosine() == doctest::Approx(*whole.cosine()).epsilon(1e-14));
}

TEST_CASE("distances of different types") {
  CHECK(espalier::larger_distance(0.0, std::uint64_t{2}) == Number(std::uint64_t{2}));
  CHECK(espalier::larger_distance(std::uint64_t{2}, 2.5) == Number(2.5));
}

TEST_CASE("layers end with the last number before the tensor's own name") {
  using espalier::layer_of;
  CHECK(layer_of("model/layers/3/attn/q/weight") == "model/layers/3");
  CHECK(layer_of("model/layers/3/experts/12/w1") == "model/layers/3/experts/12");
  CHECK(layer_of("model.layers.3.attn.weight") == "model.layers.3");
  CHECK(layer_of("blocks/~27/a/w") == "blocks/~27");
  CHECK(layer_of("model/embed") == "model");
  CHECK(layer_of("conv1.weight") == "conv1");
  CHECK(layer_of("biases/3") == "biases");
  CHECK(layer_of("3/w") == "3");
  CHECK(layer_of("w") == "");
  CHECK(layer_of("") == "");
  CHECK(layer_of("/w") == "");
}

}  // namespace
