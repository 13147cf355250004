// The part of a `Pattern` that matches one segment of a key path.
#ifndef ESPALIER_TREE_SEGMENT_PATTERN_H_
#define ESPALIER_TREE_SEGMENT_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/pattern.h"

namespace espalier {

/// A glob over one printed segment; pattern.h describes the syntax. A plain value: const access is
/// thread-safe.
///
/// Names without wildcards, and with one '*' as the only wildcard, are matched by comparing bytes.
/// Anything else is compiled to a small nondeterministic automaton and simulated, a bit per state.
/// That always takes time proportional to the pattern's length times the name's length, and no heap
/// memory.
class SegmentPattern {
 public:
  /// Longest pattern that `parse` accepts; it bounds the automaton.
  static constexpr std::size_t kMaxPatternBytes = Pattern::kMaxBytes;

  /// Compiles the segment of `pattern` that starts at `offset`, and moves `offset` to the '/' that
  /// ends it or to the end of the pattern, which must be UTF-8. Fails with `kInvalidPattern`.
  [[nodiscard]] static Result<SegmentPattern> parse(std::string_view pattern, std::size_t& offset,
                                                    LetterCase letter_case = LetterCase::kExact);

  /// If case is ignored, `segment` must be in lower case.
  bool matches(std::string_view segment) const;

  bool is_literal() const { return kind_ == Kind::kLiteral; }
  /// The only segment that a literal pattern matches.
  const std::string& literal() const { return prefix_; }

 private:
  class Compiler;

  enum class Kind : std::uint8_t {
    kLiteral,   // prefix_
    kStars,     // prefix_ * middle_[0] * ... * suffix_
    kAutomaton  // program_
  };
  enum class Op : std::uint8_t {
    kChar,    // Consumes the character `a`, continues at the next instruction.
    kAny,     // Consumes any character.
    kClass,   // Consumes a character of classes_[a].
    kStar,    // Consumes any character and stays, or continues without consuming.
    kFork,    // Continues at the next instruction and at `a`, without consuming.
    kJump,    // Continues at `a`, without consuming.
    kAccept,  // Always the last instruction.
  };
  struct Instruction {
    Op op;
    std::uint32_t a = 0;
  };
  struct Range {
    char32_t first;
    char32_t last;
  };
  struct CharClass {
    bool negated = false;
    std::vector<Range> ranges;

    bool contains(char32_t c) const;
  };

  bool eats(const Instruction& instruction, char32_t c) const;
  bool has_middle(std::string_view segment) const;
  bool simulate(std::string_view segment) const;

  Kind kind_ = Kind::kLiteral;
  std::string prefix_;
  std::string suffix_;
  std::vector<std::string> middle_;
  std::vector<Instruction> program_;
  std::vector<CharClass> classes_;
};

}  // namespace espalier

#endif  // ESPALIER_TREE_SEGMENT_PATTERN_H_
