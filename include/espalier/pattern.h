// Patterns that select nodes by their printed key path.
//
//   model/**                 everything below model, and model itself
//   **/weight                every weight, wherever it is
//   model/layers/[0-3]/*     the contents of the first four layers
//   **/{attn,mlp}.{w,b}      names put together from parts
//
//   *         any run of characters within a segment, also none; there must be a segment
//   ?         one character within a segment
//   **        as a whole segment: any number of segments, also none
//   {a,b}     one of several alternatives within a segment; they may be empty, hold wildcards, nest
//   [a-z_]    one of these characters; [!a-z_] one of any others
//   \         the next character stands for itself
//
// Every other character matches itself, and so do ',' '}' ']' '!' '-' where they have no special
// meaning. The empty pattern matches only the root; `**` matches every node and the root.
//
// A pattern is compared with the text that key_path.h prints, escapes included: a slash inside a
// key is the two characters `~1`. A segment `~28` finds the string key "8" also where that is
// printed without its mark. One '/' at the beginning and one at the end are taken off. Characters
// are Unicode code points and match exactly, without normalisation. Case matters, but a pattern can
// ignore the case of the letters A to Z.
#ifndef ESPALIER_PATTERN_H_
#define ESPALIER_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier {

/// Whether the letters A to Z match a to z. Other letters always match exactly, because case rules
/// differ between languages.
enum class LetterCase : std::uint8_t { kExact, kIgnored };

class SegmentPattern;

/// A compiled pattern. A plain value that owns all it needs; any number of threads may match with
/// one const pattern. Matching takes at most time proportional to the pattern's length times the
/// path's length, for any pattern and name.
class Pattern {
 public:
  /// Both bound the cost of a hostile pattern. A state has one bit per position between segments.
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxSegments = 62;

  /// The empty pattern.
  Pattern();
  Pattern(const Pattern& other);
  Pattern(Pattern&& other) noexcept;
  Pattern& operator=(const Pattern& other);
  Pattern& operator=(Pattern&& other) noexcept;
  ~Pattern();

  /// Fails with `kInvalidPattern` for text that is not a pattern: brackets or braces left open or
  /// running over a '/', an empty segment (no key path has one), `**` next to something else, an
  /// empty or backward range, bytes that are not UTF-8, or more than the limits above. The message
  /// gives the character, counted from 1, and what to write instead.
  [[nodiscard]] static Result<Pattern> parse(std::string_view text,
                                             LetterCase letter_case = LetterCase::kExact);

  /// The pattern's text.
  const std::string& text() const { return text_; }

  /// Whether the pattern matches all of `printed_path`.
  bool matches(std::string_view printed_path) const;

  // To match a tree while walking it, take `start()` for the root and, for each child, `step()`
  // from its parent's state with the child's printed segment. `is_unmarked`: it is a string key
  // that is printed without the mark ~2, by which literals still find it. `accepts()` returns
  // whether that node matches. A dead state (0) means that neither the node nor anything below it
  // matches, so a walk can skip the subtree.

  /// The set of positions in the pattern that the path so far may have reached. Valid only for the
  /// pattern that made it.
  using State = std::uint64_t;

  State start() const;
  State step(State state, std::string_view printed_segment, bool is_unmarked = false) const;
  bool accepts(State state) const { return (state & accepting_) != 0; }

  /// Whether the pattern matches at most one path, so that a look-up can replace a search.
  bool is_literal() const { return literal_path().has_value(); }
  /// The printed path that a literal pattern matches, with backslashes resolved; nullopt for other
  /// patterns. It may not be a valid key path, because a pattern may ask for a path that cannot
  /// exist.
  std::optional<std::string> literal_path() const;

 private:
  static constexpr State bit(std::size_t place) { return State{1} << place; }
  /// Adds the positions reachable without a segment, by matching each `**` with nothing.
  State skip_globstars(State state) const;
  State step_folded(State state, std::string_view folded_segment, bool is_unmarked) const;

  std::string text_;
  /// One for each segment; unused for a `**`.
  std::vector<SegmentPattern> segments_;
  /// The bit of each segment that is `**`.
  State globstars_ = 0;
  /// The bit of the end of the pattern.
  State accepting_ = 1;
  LetterCase letter_case_ = LetterCase::kExact;
};

/// Parses several patterns; an error quotes the invalid one.
[[nodiscard]] Result<std::vector<Pattern>> parse_patterns(std::span<const std::string> texts);

}  // namespace espalier

#endif  // ESPALIER_PATTERN_H_
