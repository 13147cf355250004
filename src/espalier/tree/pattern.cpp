#include "espalier/pattern.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "espalier/tree/segment_pattern.h"

namespace espalier {
namespace {

/// Copies a text with the letters A to Z in lower case, eight bytes at a time, because the viewer
/// compares millions of names while the user types.
void copy_in_lower_case(std::string_view text, char* out) {
  constexpr std::uint64_t kEachByte = 0x0101010101010101;
  constexpr std::uint64_t kHighBits = kEachByte << 7;
  std::size_t i = 0;
  for (; text.size() - i >= sizeof(std::uint64_t); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, sizeof word);
    // Adding the right amount sets a byte's own high bit if the byte is large enough; bytes below
    // 128 do not carry.
    const std::uint64_t low = word & ~kHighBits;
    const std::uint64_t from_a = low + kEachByte * (128 - 'A');
    const std::uint64_t beyond_z = low + kEachByte * (127 - 'Z');
    const std::uint64_t is_upper = from_a & ~beyond_z & ~word & kHighBits;
    word |= is_upper >> 2;
    std::memcpy(out + i, &word, sizeof word);
  }
  for (; i < text.size(); ++i) {
    const bool is_upper = text[i] >= 'A' && text[i] <= 'Z';
    out[i] = static_cast<char>(text[i] | (is_upper ? 'a' - 'A' : 0));
  }
}

}  // namespace

Pattern::Pattern() = default;
Pattern::Pattern(const Pattern& other) = default;
Pattern::Pattern(Pattern&& other) noexcept = default;
Pattern& Pattern::operator=(const Pattern& other) = default;
Pattern& Pattern::operator=(Pattern&& other) noexcept = default;
Pattern::~Pattern() = default;

bool Pattern::matches(std::string_view printed_path) const {
  State state = start();
  if (printed_path.empty()) return accepts(state);
  for (std::size_t begin = 0; state != 0;) {
    const std::size_t end = std::min(printed_path.find('/', begin), printed_path.size());
    state = step(state, printed_path.substr(begin, end - begin));
    if (end == printed_path.size()) break;
    begin = end + 1;
  }
  return accepts(state);
}

Pattern::State Pattern::start() const { return skip_globstars(bit(0)); }

Pattern::State Pattern::step(State state, std::string_view printed_segment,
                             bool is_unmarked) const {
  if (letter_case_ == LetterCase::kExact) return step_folded(state, printed_segment, is_unmarked);
  // Millions of names are matched, and most are short: those take no heap memory.
  std::array<char, 256> room;
  std::string long_name;
  char* folded = room.data();
  if (printed_segment.size() > room.size()) {
    long_name.resize(printed_segment.size());
    folded = long_name.data();
  }
  copy_in_lower_case(printed_segment, folded);
  return step_folded(state, {folded, printed_segment.size()}, is_unmarked);
}

Pattern::State Pattern::step_folded(State state, std::string_view folded_segment,
                                    bool is_unmarked) const {
  State next = state & globstars_;  // A `**` consumes the segment and stays active.
  State left = state & ~globstars_ & (accepting_ - 1);
  for (; left != 0; left &= left - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    const SegmentPattern& segment = segments_[place];
    // Only a literal can mean the mark; wildcards match what is printed.
    if (segment.matches(folded_segment) ||
        (is_unmarked && segment.is_literal() && segment.literal().starts_with("~2") &&
         std::string_view(segment.literal()).substr(2) == folded_segment)) {
      next |= bit(place + 1);
    }
  }
  return skip_globstars(next);
}

std::optional<std::string> Pattern::literal_path() const {
  if (globstars_ != 0 || letter_case_ == LetterCase::kIgnored) return std::nullopt;
  std::string path;
  for (const SegmentPattern& segment : segments_) {
    if (!segment.is_literal()) return std::nullopt;
    if (!path.empty()) path += '/';
    path += segment.literal();
  }
  return path;
}

Pattern::State Pattern::skip_globstars(State state) const {
  while (const State more = (state & globstars_) << 1 & ~state) state |= more;
  return state;
}

}  // namespace espalier
