#include "espalier/tree/pattern.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"

namespace espalier {
namespace {

constexpr Pattern::State bit(std::size_t place) { return Pattern::State{1} << place; }

/// Copies a text, the letters A to Z in lower case: eight at a time, because millions of names are
/// compared while somebody types.
void copy_in_lower_case(std::string_view text, char* out) {
  constexpr std::uint64_t kEachByte = 0x0101010101010101;
  constexpr std::uint64_t kHighBits = kEachByte << 7;
  std::size_t i = 0;
  for (; text.size() - i >= sizeof(std::uint64_t); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, sizeof word);
    // Bytes below 128 reach the high bit of their own when enough is added.
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

/// Whether a segment that is just `**` starts at `offset`.
bool globstar_at(std::string_view text, std::size_t offset) {
  const std::string_view rest = text.substr(offset);
  return rest == "**" || rest.starts_with("**/");
}

tl::unexpected<Error> fail_at(std::string_view text, std::size_t offset, std::string what) {
  const std::size_t character = count_utf8_chars(text.substr(0, offset)) + 1;
  return fail(ErrorCode::kInvalidPattern,
              "bad pattern at character " + std::to_string(character) + ": " + std::move(what));
}

}  // namespace

Result<Pattern> Pattern::parse(std::string_view text, LetterCase letter_case) {
  if (text.size() > kMaxBytes) {
    return fail(
        ErrorCode::kInvalidPattern,
        "the pattern is longer than " + counted(kMaxBytes, "byte") + "; split it into several");
  }
  if (const auto invalid = find_invalid_utf8(text)) {
    return fail_at(text, *invalid, "the text is not UTF-8 from here on; convert it to UTF-8");
  }
  Pattern pattern;
  pattern.text_ = text;
  pattern.letter_case_ = letter_case;
  if (text.empty()) return pattern;
  for (std::size_t offset = 0;; ++offset) {
    if (offset == text.size() || text[offset] == '/') {
      return fail_at(text, offset,
                     "a segment is empty, which no key path has; leave out the extra '/', or write "
                     "'~2' for the empty string key");
    }
    if (pattern.segments_.size() == kMaxSegments) {
      return fail_at(text, offset,
                     "a pattern has at most " + std::to_string(kMaxSegments) +
                         " segments; use '**' for a run of them");
    }
    if (globstar_at(text, offset)) {
      pattern.globstars_ |= bit(pattern.segments_.size());
      pattern.segments_.emplace_back();
      offset += 2;
    } else {
      auto segment = SegmentPattern::parse(text, offset, letter_case);
      if (!segment) return propagate(segment);
      pattern.segments_.push_back(*std::move(segment));
    }
    if (offset == text.size()) {
      pattern.accepting_ = bit(pattern.segments_.size());
      return pattern;
    }
  }
}

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

Pattern::State Pattern::step(State state, std::string_view printed_segment) const {
  if (letter_case_ == LetterCase::kExact) return step_folded(state, printed_segment);
  // Most names are short, and millions of them are asked about: no memory from the heap for those.
  std::array<char, 256> room;
  std::string long_name;
  char* folded = room.data();
  if (printed_segment.size() > room.size()) {
    long_name.resize(printed_segment.size());
    folded = long_name.data();
  }
  copy_in_lower_case(printed_segment, folded);
  return step_folded(state, {folded, printed_segment.size()});
}

Pattern::State Pattern::step_folded(State state, std::string_view folded_segment) const {
  State next = state & globstars_;  // A `**` takes the segment and stays where it is.
  State left = state & ~globstars_ & (accepting_ - 1);
  for (; left != 0; left &= left - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    if (segments_[place].matches(folded_segment)) next |= bit(place + 1);
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

Result<std::vector<Pattern>> parse_patterns(std::span<const std::string> texts) {
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    auto pattern = Pattern::parse(text);
    if (!pattern) {
      pattern.error().message = "pattern '" + text + "': " + pattern.error().message;
      return propagate(pattern);
    }
    patterns.push_back(std::move(*pattern));
  }
  return patterns;
}

}  // namespace espalier
