// Doubles as decimal text, whatever locale the program has set.
#ifndef ESPALIER_BASE_REAL_TEXT_H_
#define ESPALIER_BASE_REAL_TEXT_H_

#include <string>

namespace espalier {

/// The double that is nearest to the decimal number that `digits` begins with, as JSON writes
/// numbers; 0 if it begins with none.
double parse_real(const char* digits);

/// The same by whole numbers alone, for WebAssembly: strtod() computes with long doubles there,
/// whose code takes 12 KB. Slower.
double parse_real_in_little_code(const char* digits);

/// A decimal that parse_real() takes for the same finite double: "0.5", "16.0", "1e30".
std::string print_real(double value);

/// The same for people and other programs, where a whole number has no fraction: "0.5", "16".
std::string print_number(double value);

}  // namespace espalier

#endif  // ESPALIER_BASE_REAL_TEXT_H_
