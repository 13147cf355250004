// Colours of text in a terminal. There are few: they mark what the eye looks for.
#ifndef ESPALIER_CLI_TERMINAL_COLORS_H_
#define ESPALIER_CLI_TERMINAL_COLORS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::cli {

enum class Style : std::uint8_t { kPlain, kPath, kType, kDamage };

/// Paints text, or leaves it as it is if colours are off.
class Colors {
 public:
  explicit Colors(bool are_on = false) : are_on_(are_on) {}

  std::string paint(Style style, std::string_view text) const {
    if (!are_on_ || text.empty() || style == Style::kPlain) return std::string(text);
    // The terminal's own colours, so that they are legible on any background.
    const char* begin = "\x1b[1m";                           // bold
    if (style == Style::kType) begin = "\x1b[36m";           // cyan
    if (style == Style::kDamage) begin = "\x1b[1m\x1b[31m";  // bold red
    return begin + std::string(text) + "\x1b[0m";
  }

 private:
  bool are_on_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_COLORS_H_
