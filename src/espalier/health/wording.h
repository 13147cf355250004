// The words and figures of findings.
#ifndef ESPALIER_HEALTH_WORDING_H_
#define ESPALIER_HEALTH_WORDING_H_

#include <cstdint>
#include <span>
#include <string>

#include "espalier/tree/statistics.h"

namespace espalier {

/// "1,234".
std::string grouped(std::uint64_t number);
/// Three digits: "0.0199".
std::string rough(double value);
/// Whole numbers, such as steps, exactly; others to three digits.
std::string number_text(double value);
std::string number_text(const Number& number);
/// "[0, 5]": the index of an element, in row-major order.
std::string index_text(std::uint64_t at, std::span<const std::uint64_t> shape);
/// "[384, 96]".
std::string shape_text(std::span<const std::uint64_t> shape);
/// "3 of 400 elements are", or "is" of a single element.
std::string share_text(std::uint64_t some, std::uint64_t all, const char* one, const char* many);
/// "from 0.0199 to 0.0201", or one of them if they read the same.
std::string range_text(double least, double greatest);

}  // namespace espalier

#endif  // ESPALIER_HEALTH_WORDING_H_
