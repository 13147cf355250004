// Patterns that pick nodes by their printed key path.
//
//   model/**                 everything under model, and model itself
//   **/weight                every weight, wherever it is
//   model/layers/[0-3]/*     what the first four layers hold
//   **/{attn,mlp}.{w,b}      names put together from parts
//
//   *         any run of characters within a segment, also none; there must be a segment
//   ?         one character within a segment
//   **        as a whole segment: any number of segments, also none
//   {a,b}     one of several alternatives within a segment; they may be empty, hold wildcards, nest
//   [a-z_]    one of these characters; [!a-z_] one of any others
//   \         the next character stands for itself
//
// Everything else, and ',' '}' ']' '!' '-' where they have no special sense, stands for itself. The
// empty pattern matches the root and nothing else; `**` matches every node and the root.
//
// A pattern is compared with the text that key_path.h prints, escapes included: a slash inside a
// key is `~1` to a pattern, which is two characters, and `**/~20` finds the string key "0".
// Characters are Unicode code points, and they match exactly: normal form counts, and so does case
// unless a pattern is made to ignore that of the letters A to Z.
#ifndef ESPALIER_TREE_PATTERN_H_
#define ESPALIER_TREE_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/tree/segment_pattern.h"

namespace espalier {

/// A compiled pattern. A plain value that owns all it needs; any number of threads may match with
/// one const pattern. Matching takes time at most proportional to the length of the pattern times
/// that of the path: there is no pattern or name that makes it explode.
class Pattern {
 public:
  /// Both bound what a hostile pattern can cost. A state has one bit per place between segments.
  static constexpr std::size_t kMaxBytes = SegmentPattern::kMaxPatternBytes;
  static constexpr std::size_t kMaxSegments = 62;

  /// Fails with `kInvalidPattern` for text that is not a pattern: brackets or braces left open or
  /// running over a '/', an empty segment (no key path has one), `**` next to something else, an
  /// empty or backward range, bytes that are not UTF-8, or more than the limits above. The message
  /// says at which character, counted from 1, and what to write instead.
  static Result<Pattern> parse(std::string_view text, LetterCase letter_case = LetterCase::kExact);

  /// The text that it was made from.
  const std::string& text() const { return text_; }

  /// Whether the pattern matches all of `printed_path`.
  bool matches(std::string_view printed_path) const;

  // To match a tree while walking it, take `start()` for the root and, for each child, `step()`
  // from its parent's state with the child's printed segment. `accepts()` says whether that node
  // matches. A dead state (0) says that neither it nor anything below it does, so that a walk can
  // leave the subtree out.

  /// A set of places in the pattern that the path so far may have reached. Means something to the
  /// pattern that made it only.
  using State = std::uint64_t;

  State start() const;
  State step(State state, std::string_view printed_segment) const;
  bool accepts(State state) const { return (state & accepting_) != 0; }

  /// Whether the pattern matches one path at most, so that a look-up can take the place of a
  /// search.
  bool is_literal() const { return literal_path().has_value(); }
  /// The printed path that a literal pattern matches, its backslashes resolved; nothing for other
  /// patterns. It need not be the text of any key path: a pattern may ask for what cannot exist.
  std::optional<std::string> literal_path() const;

 private:
  /// Adds what can be reached without a segment, by taking each `**` as none.
  State skip_globstars(State state) const;
  State step_folded(State state, std::string_view folded_segment) const;

  std::string text_;
  /// One for each segment; for a `**` it is there but unused.
  std::vector<SegmentPattern> segments_;
  /// The bit of each segment that is `**`.
  State globstars_ = 0;
  /// The bit of the end of the pattern.
  State accepting_ = 1;
  LetterCase letter_case_ = LetterCase::kExact;
};

/// The patterns of several texts; the error for one that is no pattern quotes it.
Result<std::vector<Pattern>> parse_patterns(std::span<const std::string> texts);

}  // namespace espalier

#endif  // ESPALIER_TREE_PATTERN_H_
