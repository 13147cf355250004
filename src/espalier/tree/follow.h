// Follows typed key paths down a tree.
#ifndef ESPALIER_TREE_FOLLOW_H_
#define ESPALIER_TREE_FOLLOW_H_

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

#include "espalier/key_path.h"

namespace espalier {

/// Longer names are not split at their dots: the look-ups grow with the square of the dots, and a
/// link from a stranger may hold any path.
inline constexpr std::size_t kMaxDottedName = 4096;

/// Follows `path` step by step. An integer key means the child under it, or else under the string
/// of its digits. A string key that is missing and has dots means the names between them: at each
/// level the longest beginning that is a key. `enter(key)` goes to the child under an exact key, or
/// returns false if there is none. The result is the first key that is missing; its text is part of
/// `path`.
template <class Enter>
std::optional<KeyView> follow(const KeyPath& path, const Enter& enter) {
  const auto enter_either = [&](const KeyView& key) {
    if (enter(key)) return true;
    if (!key.is_int) return false;
    std::array<char, 20> digits;  // "-9223372036854775808"
    const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), key.integer).ptr;
    const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
    return bool{enter(KeyView::of(text))};
  };
  for (const Key& typed : path) {
    const KeyView key = typed.view();
    if (enter_either(key)) continue;
    std::string_view rest = key.text;
    std::size_t end = key.is_int || rest.size() > kMaxDottedName ? 0 : rest.size();
    for (bool is_done = false; !is_done;) {
      // No key is entered at `end`: look for a shorter beginning.
      end = end == 0 ? std::string_view::npos : rest.rfind('.', end - 1);
      const bool is_split = rest.size() < key.text.size();
      if (end == std::string_view::npos) return is_split ? KeyView::of(rest) : key;
      const auto enter_name = [&](std::string_view name) {
        const auto integer = read_int_key(name);
        return enter_either(integer ? KeyView::of(*integer) : KeyView::of(name));
      };
      if (!enter_name(rest.substr(0, end))) continue;
      rest.remove_prefix(end + 1);
      is_done = enter_name(rest);
      end = rest.size();
    }
  }
  return std::nullopt;
}

}  // namespace espalier

#endif  // ESPALIER_TREE_FOLLOW_H_
