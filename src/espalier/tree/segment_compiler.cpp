// Compiles the text of a SegmentPattern.
#include <algorithm>
#include <optional>
#include <utility>

#include "espalier/base/utf8.h"
#include "espalier/tree/segment_pattern.h"
#include "espalier/tree/text_error.h"

namespace espalier {
namespace {

/// Distance from an upper-case ASCII letter to its lower case.
constexpr char32_t kToLower = U'a' - U'A';

}  // namespace

/// Compiles the text of one segment to a program. Open braces are on an explicit stack, not in
/// recursion, so a hostile pattern cannot exhaust the call stack.
class SegmentPattern::Compiler {
 public:
  Compiler(std::string_view pattern, std::size_t offset, LetterCase letter_case)
      : pattern_(pattern), offset_(offset), letter_case_(letter_case) {}

  Result<SegmentPattern> compile() {
    while (!at_end() && peek() != '/') {
      if (auto error = element()) return tl::unexpected(std::move(*error));
    }
    if (!open_.empty()) {
      return tl::unexpected(
          at_end() ? error_at(open_.back().offset, "'{' is never closed; add '}', or write '\\{'")
                   : error_at(offset_,
                              "'/' is not allowed inside '{...}'; close the '{' first, or use two "
                              "patterns"));
    }
    emit(Op::kAccept);
    return simplify();
  }

  std::size_t offset() const { return offset_; }

 private:
  using MaybeError = std::optional<Error>;

  struct OpenBrace {
    std::size_t offset;
    /// The fork to the alternative after the current one.
    std::size_t fork;
    /// The jumps from the ends of finished alternatives to what follows the closing brace.
    std::vector<std::size_t> jumps;
  };

  MaybeError element() {
    switch (peek()) {
      case '*':
        return star();
      case '?':
        ++offset_;
        emit(Op::kAny);
        needs_automaton_ = true;
        return {};
      case '[':
        return char_class();
      case '{':
        open_.push_back({offset_++, emit(Op::kFork), {}});
        needs_automaton_ = true;
        return {};
      case ',':
        if (open_.empty()) return literal();
        ++offset_;
        next_alternative();
        return {};
      case '}':
        if (open_.empty()) return literal();
        ++offset_;
        close_brace();
        return {};
      default:
        return literal();
    }
  }

  MaybeError star() {
    const std::size_t begin = offset_++;
    if (!at_end() && peek() == '*') {
      return error_at(begin,
                      "'**' must be a whole segment; write '*' for any characters within one, or "
                      "'\\*' for a *");
    }
    stars_.push_back(literal_.size());
    emit(Op::kStar);
    return {};
  }

  MaybeError literal() {
    const std::size_t begin = offset_;
    char32_t c = 0;
    if (auto error = character(c)) return error;
    const bool escaped = pattern_[begin] == '\\';
    if (letter_case_ == LetterCase::kIgnored && c >= U'A' && c <= U'Z') {
      c += kToLower;
      literal_ += static_cast<char>(c);
    } else {
      literal_ += pattern_.substr(begin + escaped, offset_ - begin - escaped);
    }
    emit(Op::kChar, static_cast<std::uint32_t>(c));
    return {};
  }

  MaybeError char_class() {
    const std::size_t begin = offset_++;
    CharClass result;
    if (!at_end() && peek() == '^') {
      return error_at(offset_,
                      "write '[!' for any character but these, or '[\\^' for the ^ itself");
    }
    if (!at_end() && peek() == '!') {
      result.negated = true;
      ++offset_;
    }
    while (at_end() || peek() != ']') {
      if (at_end() || peek() == '/') {
        return error_at(begin, "'[' is not closed in its segment; add ']', or write '\\['");
      }
      if (auto error = range(result)) return error;
    }
    if (result.ranges.empty()) {
      return error_at(begin, "'[]' lists no characters; list some, or write '\\[' for a bracket");
    }
    ++offset_;
    emit(Op::kClass, static_cast<std::uint32_t>(classes_.size()));
    classes_.push_back(std::move(result));
    needs_automaton_ = true;
    return {};
  }

  /// Reads `a` or `a-z`. A '-' with nothing on one side stands for itself.
  MaybeError range(CharClass& result) {
    const std::size_t begin = offset_;
    Range range{};
    if (auto error = character(range.first)) return error;
    range.last = range.first;
    const std::string_view rest = pattern_.substr(offset_);
    if (rest.size() > 1 && rest[0] == '-' && rest[1] != ']' && rest[1] != '/') {
      ++offset_;
      if (auto error = character(range.last)) return error;
    }
    if (range.last < range.first) {
      return error_at(begin, "this range is backwards and matches nothing; swap its two ends");
    }
    result.ranges.push_back(range);
    if (letter_case_ == LetterCase::kIgnored) {
      const Range upper{std::max(range.first, U'A'), std::min(range.last, U'Z')};
      if (upper.first <= upper.last) {
        result.ranges.push_back({upper.first + kToLower, upper.last + kToLower});
      }
    }
    return {};
  }

  /// Reads one literal character, perhaps after a '\'.
  MaybeError character(char32_t& c) {
    if (peek() == '\\') {
      ++offset_;
      if (at_end() || peek() == '/') {
        return error_at(offset_ - 1,
                        "'\\' has no character after it; write '\\\\' for a \\, and '~1' for a "
                        "slash in a key");
      }
    }
    const Utf8Char decoded = decode_utf8(pattern_, offset_);
    c = decoded.code_point;
    offset_ += decoded.length;
    return {};
  }

  void next_alternative() {
    OpenBrace& brace = open_.back();
    brace.jumps.push_back(emit(Op::kJump));
    program_[brace.fork].a = here();
    brace.fork = emit(Op::kFork);
  }

  void close_brace() {
    const OpenBrace& brace = open_.back();
    // The last alternative has no other to fork to.
    program_[brace.fork] = {Op::kJump, static_cast<std::uint32_t>(brace.fork + 1)};
    for (const std::size_t jump : brace.jumps) program_[jump].a = here();
    open_.pop_back();
  }

  SegmentPattern simplify() {
    SegmentPattern result;
    if (needs_automaton_) {
      result.kind_ = Kind::kAutomaton;
      result.program_ = std::move(program_);
      result.classes_ = std::move(classes_);
    } else if (!stars_.empty()) {
      result.kind_ = Kind::kStars;
      result.prefix_ = literal_.substr(0, stars_.front());
      result.suffix_ = literal_.substr(stars_.back());
      for (std::size_t i = 1; i < stars_.size(); ++i) {
        result.middle_.push_back(literal_.substr(stars_[i - 1], stars_[i] - stars_[i - 1]));
      }
    } else {
      result.prefix_ = std::move(literal_);
    }
    return result;
  }

  bool at_end() const { return offset_ == pattern_.size(); }
  char peek() const { return pattern_[offset_]; }
  std::uint32_t here() const { return static_cast<std::uint32_t>(program_.size()); }

  std::size_t emit(Op op, std::uint32_t a = 0) {
    program_.push_back({op, a});
    return program_.size() - 1;
  }

  Error error_at(std::size_t offset, const char* what) const {
    return text_error(ErrorCode::kInvalidPattern, pattern_, offset, what);
  }

  std::string_view pattern_;
  std::size_t offset_;
  LetterCase letter_case_;
  std::vector<OpenBrace> open_;
  std::vector<Instruction> program_;
  std::vector<CharClass> classes_;
  /// The characters read so far, and the positions of stars among them. They describe the whole
  /// segment unless it needs an automaton.
  std::string literal_;
  std::vector<std::size_t> stars_;
  bool needs_automaton_ = false;
};

Result<SegmentPattern> SegmentPattern::parse(std::string_view pattern, std::size_t& offset,
                                             LetterCase letter_case) {
  Compiler compiler(pattern, offset, letter_case);
  auto result = compiler.compile();
  offset = compiler.offset();
  return result;
}

}  // namespace espalier
