#include "cli/terminal/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

#include <fmt/format.h>

namespace espalier::cli {
namespace {

template <class T>
std::string shortest(T value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Width for padding: every printable character counts as one column.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

}  // namespace

std::string shortened(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0u) == 0x80u;
  };
  std::size_t head = max_bytes / 2;
  std::size_t tail = text.size() - max_bytes / 2;
  while (head > 0 && continues(head)) --head;
  while (tail < text.size() && continues(tail)) ++tail;
  return fmt::format("{}[...]{}", text.substr(0, head), text.substr(tail));
}

std::string path_text(std::string_view path) { return path.empty() ? "(root)" : escaped(path); }

std::string mention_text(std::string_view path) {
  return path_text(shortened(path, kMaxMentionBytes));
}

std::string format_size(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.96 would print as 1024.0.
  while (size >= 1023.95 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto refuse = [&] {
    return fail(
        ErrorCode::kInvalidArgument,
        "'" + std::string(text) + "' is no size; write for example 100, 64KiB, 1.5MiB or 2GB");
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || std::signbit(number)) return refuse();
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (*c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  static constexpr std::string_view kPrefixes = "KMGTPE";
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    const std::size_t prefix = kPrefixes.find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    const bool is_decimal = rest == "B";
    if (prefix == std::string_view::npos || !(is_decimal || rest.empty() || rest == "IB")) {
      return refuse();
    }
    factor = std::pow(is_decimal ? 1000.0 : 1024.0, static_cast<double>(prefix + 1));
  }
  // 2^64 is exact as a double.
  if (number * factor >= 18446744073709551616.0) return refuse();
  return static_cast<std::uint64_t>(number * factor);
}

std::string format_real(double value) { return shortest(value); }
std::string format_real(float value) { return shortest(value); }

void Table::measure(const Cells& cells) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths_[i] = std::max(widths_[i], width(cells[i]));
  }
}

void Table::append_row(std::string& out, const Cells& cells, std::string_view last) const {
  append_line(out, cells, last, colors_);
}

void Table::append_titles(std::string& out, const Cells& titles, std::string_view last) const {
  append_line(out, titles, last, Colors());
}

void Table::append_line(std::string& out, const Cells& cells, std::string_view last,
                        Colors colors) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t padding = widths_[i] - width(cells[i]);
    if (columns_[i].align == Align::kRight) out.append(padding, ' ');
    out += colors.paint(columns_[i].style, cells[i]);
    if (columns_[i].align == Align::kLeft) out.append(padding, ' ');
    out += "  ";
  }
  out += last;
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += '\n';
}

}  // namespace espalier::cli
