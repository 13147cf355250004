#include "espalier/base/real_text.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

#include <doctest/doctest.h>

namespace {

using espalier::parse_real;
using espalier::parse_real_in_little_code;

void check(const std::string& text) {
  CAPTURE(text);
  const double wanted = parse_real(text.c_str());
  const double found = parse_real_in_little_code(text.c_str());
  CHECK(std::bit_cast<std::uint64_t>(found) == std::bit_cast<std::uint64_t>(wanted));
}

// All digits of a double, 1100 or so, with "e" and an exponent.
std::string exact_text(double value) {
  std::string text(1200, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.1100e", value)));
  return text;
}

}  // namespace

TEST_CASE("real_text: little code gives the doubles that strtod() gives") {
  for (const char* const text : {"0",
                                 "-0",
                                 "0.0",
                                 "-0.0e5",
                                 "1",
                                 "-1",
                                 "16.0",
                                 "0.1",
                                 "1e-3",
                                 "1E+3",
                                 "1e",
                                 "1e+",
                                 "",

                                 "x",
                                 ".5",
                                 "5.",
                                 "1.5.5",
                                 "12ab",
                                 "0e999999999999999999999",
                                 "1e999999999999999999999",
                                 "1e-999999999999999999999",
                                 "1.7976931348623157e308",
                                 "1.7976931348623158e308",
                                 "1.7976931348623159e308",
                                 "1e308",
                                 "1e309",
                                 "4.9e-324",
                                 "2.4703282292062327e-324",
                                 "2.4703282292062328e-324",
                                 "2.2250738585072011e-308",
                                 "2.2250738585072014e-308",
                                 "9007199254740993",
                                 "9007199254740992.999",
                                 "9007199254740993.0000000000000000000001",
                                 "18446744073709551616",
                                 "123456789012345678901234567890",
                                 "6.631236846766476e-316"}) {
    check(text);
  }
  // Zeros before and behind the digits, and more digits than count.
  check("0." + std::string(400, '0') + "1e401");
  check("1" + std::string(400, '0') + "e-400");
  check("1" + std::string(900, '0') + "e-900");
  check("9007199254740993" + std::string(900, '0') + "e-900");
  check("9007199254740993" + std::string(900, '0') + "1e-901");
  check("9007199254740993." + std::string(900, '0') + "1");
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    std::string text = espalier::print_real(value);
    check(text);
    // Some digits, and any exponent.
    check(std::to_string(random() >> (random() % 60)) + '.' + std::to_string(random()) + 'e' +
          std::to_string(static_cast<int>(random() % 700) - 350));
    if (i % 20 != 0) continue;
    // Halfway between two doubles, and a digit more or less.
    const double other = std::nextafter(value, 0.0);
    const double half = std::ldexp(value, -1);
    if (i % 40 == 0) check(exact_text(other));
    check(exact_text(value));
    check(exact_text(half));
  }
  // Between neighbours: an odd number of halves is a text of whole digits.
  for (int i = 0; i < 2'000; ++i) {
    const std::uint64_t odd = (random() >> 10) | (std::uint64_t{1} << 53) | 1;
    const std::string text = std::to_string(odd);
    check(text);
    check(text + ".0");
    check(text + '.' + std::string(800, '0') + '1');
    check(std::to_string(odd - 1) + '.' + std::string(800, '9'));
  }
}
