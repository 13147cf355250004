// How far two tensors are apart: norms, relative change, cosine.
#ifndef ESPALIER_REPORT_TENSOR_DELTA_H_
#define ESPALIER_REPORT_TENSOR_DELTA_H_

#include <cstdint>
#include <optional>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/tree/statistics.h"

namespace espalier {

/// A sum of products that neither overflows nor underflows: very large and very small products are
/// scaled and summed apart (Blue: A portable Fortran program to find the Euclidean norm).
class ProductSum {
 public:
  /// value * 2^exponent; the exponent is even.
  struct Scaled {
    double value;
    int exponent;
  };

  /// Adds x * y, of two finite numbers.
  void add(double x, double y);
  /// Adds a sum of products that are far from overflow and underflow.
  void add_sum(double sum) { medium_ += sum; }
  void merge(const ProductSum& other);

  Scaled total() const;
  /// The square root of the sum; infinite if it exceeds the largest double.
  double root() const;

 private:
  double large_ = 0;
  double medium_ = 0;
  double small_ = 0;
};

/// How two tensors of the same dtype and shape differ; added piece by piece. Norms, distances and
/// the cosine cover the pairs of finite elements. A complex number is one element, and two numbers
/// of a vector. Opaque dtypes have no elements.
///
/// The same pieces in the same order give the same result, to the last bit.
class TensorDelta {
 public:
  /// Adds the next `count` elements. Both spans hold at least so many elements of `dtype`, from
  /// their first bit on.
  void add(DType dtype, ByteSpan before, ByteSpan after, std::uint64_t count);
  /// Adds the elements of `other` as further pieces.
  void merge(const TensorDelta& other);

  std::uint64_t elements() const { return elements_; }
  /// Elements that differ, including those that are not comparable. Two NaNs are equal, and so are
  /// 0.0 and -0.0.
  std::uint64_t changed() const { return changed_; }
  /// Changed elements without a distance, because one or both are not finite.
  std::uint64_t not_comparable() const { return not_comparable_; }
  /// The largest distance of an element; exact for integers.
  const Number& max_delta() const { return max_delta_; }

  /// The Euclidean norms of the difference and of the two tensors.
  double delta_norm() const { return delta_.root(); }
  double before_norm() const { return before_.root(); }
  double after_norm() const { return after_.root(); }
  /// delta_norm / before_norm: 0 without a difference, otherwise infinite if the first tensor is 0.
  double relative() const;
  /// The cosine of the angle between the two; nothing if one of them is 0.
  std::optional<double> cosine() const;

 private:
  template <class Sum, class T>
  void add_elements(DType dtype, ByteSpan before, ByteSpan after, std::uint64_t count);

  std::uint64_t elements_ = 0;
  std::uint64_t changed_ = 0;
  std::uint64_t not_comparable_ = 0;
  Number max_delta_ = 0.0;
  ProductSum delta_;
  ProductSum before_;
  ProductSum after_;
  ProductSum both_;  // before * after
};

/// The larger of two distances, which may have different types.
Number larger_distance(const Number& a, const Number& b);

}  // namespace espalier

#endif  // ESPALIER_REPORT_TENSOR_DELTA_H_
