#include "espalier/health/wording.h"

#include <cmath>
#include <vector>

#include "espalier/base/json_text.h"
#include "espalier/base/real_text.h"

namespace espalier {

std::string grouped(std::uint64_t number) {
  std::string digits;
  append_number(digits, number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string rough(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return value > 0 ? "infinite" : "-infinite";
  auto power = static_cast<int>(std::floor(std::log10(std::abs(value)))) - 2;
  // In two steps: a tenth of the smallest numbers is none.
  const double digits = std::abs(value) / std::pow(10, power / 2) / std::pow(10, power - power / 2);
  std::string text = value < 0 ? "-" : "";
  append_number(text, static_cast<std::int64_t>(std::round(digits)));
  text += 'e';
  append_number(text, power);
  // The double that is nearest to these digits is printed with no others.
  text = print_real(parse_real(text.c_str()));
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
  return text;
}

std::string number_text(double value) {
  if (!(std::abs(value) < 0x1p53) || value != std::floor(value)) return rough(value);
  std::string text;
  append_number(text, static_cast<std::int64_t>(value));
  return text;
}

std::string number_text(const Number& number) {
  if (const double* real = std::get_if<double>(&number)) return number_text(*real);
  std::string text;
  if (const auto* negative = std::get_if<std::int64_t>(&number)) append_number(text, *negative);
  if (const auto* positive = std::get_if<std::uint64_t>(&number)) append_number(text, *positive);
  return text;
}

std::string index_text(std::uint64_t at, std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) return {};
    index[axis] = at % shape[axis];
    at /= shape[axis];
  }
  return shape_text(index);
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ", ";
    append_number(text, shape[axis]);
  }
  return text + "]";
}

std::string share_text(std::uint64_t some, std::uint64_t all, const char* one, const char* many) {
  const std::string verb = some == 1 ? one : many;
  return all == 1 ? verb : grouped(some) + " of " + grouped(all) + " elements " + verb;
}

std::string range_text(double least, double greatest) {
  const std::string from = rough(least);
  const std::string to = rough(greatest);
  return from == to ? from : "from " + from + " to " + to;
}

}  // namespace espalier
