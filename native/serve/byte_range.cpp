#include "serve/byte_range.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <system_error>

namespace espalier::serve {
namespace {

constexpr ByteRange kWhole = {};
constexpr ByteRange kUnsatisfiable = {ByteRange::Kind::kUnsatisfiable, 0, 0};

// A number of at least one digit. A number beyond 64 bits becomes the largest, which is also beyond
// the end of any resource.
std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc::invalid_argument || end != last) return std::nullopt;
  if (error != std::errc()) return std::numeric_limits<std::uint64_t>::max();
  return number;
}

bool is_bytes_unit(std::string_view unit) {
  return unit.size() == 5 && std::equal(unit.begin(), unit.end(), "bytes",
                                        [](char a, char b) { return (a | 0x20) == b; });
}

}  // namespace

ByteRange choose_range(std::string_view field, std::uint64_t size) {
  const std::size_t equals = field.find('=');
  if (equals == std::string_view::npos || !is_bytes_unit(field.substr(0, equals))) return kWhole;
  const std::string_view spec = field.substr(equals + 1);
  const std::size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return kWhole;
  const std::string_view before = spec.substr(0, dash);
  const std::string_view after = spec.substr(dash + 1);

  if (before.empty()) {  // the last bytes
    const auto wanted = parse_number(after);
    if (!wanted) return kWhole;
    const std::uint64_t length = std::min(*wanted, size);
    if (length == 0) return kUnsatisfiable;
    return {ByteRange::Kind::kPart, size - length, length};
  }
  const auto first = parse_number(before);
  const auto last = after.empty() ? std::numeric_limits<std::uint64_t>::max() : parse_number(after);
  if (!first || !last || *first > *last) return kWhole;
  if (*first >= size) return kUnsatisfiable;
  return {ByteRange::Kind::kPart, *first, std::min(*last, size - 1) - *first + 1};
}

}  // namespace espalier::serve
