// The magnitude of a complex number.
#ifndef ESPALIER_TREE_MAGNITUDE_H_
#define ESPALIER_TREE_MAGNITUDE_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace espalier {

/// That of a finite number is finite: at most the largest double.
inline double magnitude(std::complex<double> z) {
  const double size = std::abs(z);
  const bool is_finite = std::isfinite(z.real()) && std::isfinite(z.imag());
  return is_finite ? std::min(size, std::numeric_limits<double>::max()) : size;
}

}  // namespace espalier

#endif  // ESPALIER_TREE_MAGNITUDE_H_
