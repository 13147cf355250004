#include "espalier/tree/pattern.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"

namespace espalier {
namespace {

constexpr Pattern::State bit(std::size_t place) { return Pattern::State{1} << place; }

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

Result<Pattern> Pattern::parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return fail(
        ErrorCode::kInvalidPattern,
        "the pattern is longer than " + counted(kMaxBytes, "byte") + "; split it into several");
  }
  if (const auto invalid = find_invalid_utf8(text)) {
    return fail_at(text, *invalid, "the text is not UTF-8 from here on; convert it to UTF-8");
  }
  Pattern pattern;
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
      auto segment = SegmentPattern::parse(text, offset);
      if (!segment) return propagate(segment);
      pattern.segments_.push_back(*std::move(segment));
    }
    if (offset == text.size()) return pattern;
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
  State next = state & globstars_;  // A `**` takes the segment and stays where it is.
  State left = state & ~globstars_ & (bit(segments_.size()) - 1);
  for (; left != 0; left &= left - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    if (segments_[place].matches(printed_segment)) next |= bit(place + 1);
  }
  return skip_globstars(next);
}

bool Pattern::accepts(State state) const { return (state & bit(segments_.size())) != 0; }

std::optional<std::string> Pattern::literal_path() const {
  if (globstars_ != 0) return std::nullopt;
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
