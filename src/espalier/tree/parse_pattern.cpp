// Parses the text of a Pattern.
#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"
#include "espalier/pattern.h"
#include "espalier/tree/segment_pattern.h"
#include "espalier/tree/text_error.h"

namespace espalier {
namespace {

/// Whether a segment that is just `**` starts at `offset`.
bool globstar_at(std::string_view text, std::size_t offset) {
  const std::string_view rest = text.substr(offset);
  return rest == "**" || rest.starts_with("**/");
}

tl::unexpected<Error> fail_at(std::string_view text, std::size_t offset, const char* what) {
  return tl::unexpected<Error>(text_error(ErrorCode::kInvalidPattern, text, offset, what));
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
  if (text.empty() || text == "/") return pattern;
  if (text.ends_with('/')) text.remove_suffix(1);
  for (std::size_t offset = text.starts_with('/') ? 1 : 0;; ++offset) {
    if (offset == text.size() || text[offset] == '/') {
      return fail_at(text, offset,
                     "a segment is empty; remove the extra '/', or write '~2' for the empty "
                     "string key");
    }
    static_assert(kMaxSegments == 62);
    if (pattern.segments_.size() == kMaxSegments) {
      return fail_at(text, offset, "a pattern has at most 62 segments; use '**' for a run of them");
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

Result<std::vector<Pattern>> parse_patterns(std::span<const std::string> texts) {
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    auto pattern = Pattern::parse(text);
    if (!pattern) return propagate(pattern);
    patterns.push_back(std::move(*pattern));
  }
  return patterns;
}

}  // namespace espalier
