#include "espalier/tree/segment_pattern.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "espalier/base/utf8.h"

namespace espalier {
namespace {

/// What a byte that is not UTF-8 counts as in a name: a character that no pattern can spell. Names
/// in a checkpoint are UTF-8, but matching must not trip over any others.
constexpr char32_t kNoCharacter = 0xFFFFFFFF;

constexpr std::uint64_t kEachByte = 0x0101010101010101;

/// How far a lower-case letter of ASCII is from its upper case.
constexpr char32_t kToLower = U'a' - U'A';

/// As name.find(part), which looks for the first character alone and takes three times as long:
/// millions of names are searched while somebody types. `part` is not empty.
std::size_t find_in_name(std::string_view name, std::string_view part) {
  if (part.size() > name.size()) return std::string_view::npos;
  const auto word_at = [&](std::size_t i) {
    std::uint64_t word = 0;
    std::memcpy(&word, name.data() + i, sizeof word);
    return word;
  };
  const std::size_t starts = name.size() - part.size() + 1;
  const std::size_t last = part.size() - 1;
  const std::uint64_t firsts = kEachByte * static_cast<unsigned char>(part.front());
  const std::uint64_t lasts = kEachByte * static_cast<unsigned char>(part[last]);
  for (std::size_t i = 0; i < starts; i += sizeof(std::uint64_t)) {
    if (starts - i >= sizeof(std::uint64_t)) {
      // A byte is zero where both the first and the last character are right; there may be others
      // that look so.
      const std::uint64_t wrong = (word_at(i) ^ firsts) | (word_at(i + last) ^ lasts);
      if (((wrong - kEachByte) & ~wrong & kEachByte << 7) == 0) continue;
    }
    const std::size_t end = std::min(starts, i + sizeof(std::uint64_t));
    for (std::size_t start = i; start < end; ++start) {
      if (name.compare(start, part.size(), part) == 0) return start;
    }
  }
  return std::string_view::npos;
}

}  // namespace

/// Turns the text of one segment into a program. Alternatives need no recursion: open braces are on
/// a stack of our own, so that a hostile pattern cannot exhaust the real one.
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
                              "'/' cannot stand inside '{...}', which picks within one "
                              "segment; close the '{' first, or use two patterns"));
    }
    emit(Op::kAccept);
    return simplify();
  }

  std::size_t offset() const { return offset_; }

 private:
  using MaybeError = std::optional<Error>;

  struct OpenBrace {
    std::size_t offset;
    /// The fork to the alternative after the one that is being read.
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
                      "'**' must be a whole segment, as in 'a/**/b'; write '*' to match any "
                      "characters within a segment, or '\\*' for the character *");
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

  /// Reads `a` or `a-z`. A '-' that has nothing on one side stands for itself.
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
      return error_at(begin, "this range runs backwards and holds nothing; swap its two ends");
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

  /// Reads one character that stands for itself, or is made to by a '\'.
  MaybeError character(char32_t& c) {
    if (peek() == '\\') {
      ++offset_;
      if (at_end() || peek() == '/') {
        return error_at(offset_ - 1,
                        "'\\' has no character after it in its segment; write '\\\\' for the "
                        "character itself, and '~1' for a slash inside a key");
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

  Error error_at(std::size_t offset, std::string what) const {
    const std::size_t character = count_utf8_chars(pattern_.substr(0, offset)) + 1;
    return {ErrorCode::kInvalidPattern,
            Error::kNoOffset,
            {},
            "bad pattern at character " + std::to_string(character) + ": " + std::move(what)};
  }

  std::string_view pattern_;
  std::size_t offset_;
  LetterCase letter_case_;
  std::vector<OpenBrace> open_;
  std::vector<Instruction> program_;
  std::vector<CharClass> classes_;
  /// The characters read so far, and where among them stars stand. They are all there is to the
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

bool SegmentPattern::matches(std::string_view segment) const {
  switch (kind_) {
    case Kind::kLiteral:
      return segment == prefix_;
    case Kind::kStars:
      return segment.size() >= prefix_.size() + suffix_.size() && segment.starts_with(prefix_) &&
             segment.ends_with(suffix_) &&
             (middle_.empty() ||
              has_middle(segment.substr(prefix_.size(),
                                        segment.size() - prefix_.size() - suffix_.size())));
    case Kind::kAutomaton:
      return simulate(segment);
  }
  return false;
}

bool SegmentPattern::CharClass::contains(char32_t c) const {
  const auto holds = [c](const Range& range) { return range.first <= c && c <= range.last; };
  return std::any_of(ranges.begin(), ranges.end(), holds) != negated;
}

bool SegmentPattern::eats(const Instruction& instruction, char32_t c) const {
  switch (instruction.op) {
    case Op::kChar:
      return c == instruction.a;
    case Op::kClass:
      return classes_[instruction.a].contains(c);
    case Op::kAny:
    case Op::kStar:
      return true;
    case Op::kFork:
    case Op::kJump:
    case Op::kAccept:
      return false;
  }
  return false;
}

// Whether the texts between stars occur one after the other. Taking each where it occurs first
// leaves the most room for the rest.
bool SegmentPattern::has_middle(std::string_view segment) const {
  for (const std::string& text : middle_) {
    const std::size_t at = text.empty() ? 0 : find_in_name(segment, text);
    if (at == std::string_view::npos) return false;
    segment.remove_prefix(at + text.size());
  }
  return true;
}

bool SegmentPattern::simulate(std::string_view segment) const {
  // A byte of the pattern emits at most two instructions (a ',' does), and there is the accept.
  constexpr std::size_t kWordBits = 64;
  constexpr std::size_t kMaxWords = 2 * kMaxPatternBytes / kWordBits + 1;
  using States = std::array<std::uint64_t, kMaxWords>;
  const std::size_t words = program_.size() / kWordBits + 1;
  const auto add = [](States& states, std::size_t state) {
    states[state / kWordBits] |= std::uint64_t{1} << (state % kWordBits);
  };

  // The states before the current character, and before the next one. Only `words` of each are
  // ever touched, so only they are cleared.
  std::array<States, 2> sets;
  States* now = &sets[0];
  States* next = &sets[1];
  std::fill_n(now->begin(), words, 0);
  add(*now, 0);

  for (std::size_t offset = 0;;) {
    const bool at_end = offset == segment.size();
    const Utf8Char decoded = at_end ? Utf8Char{} : decode_utf8(segment, offset);
    const char32_t c = decoded.length != 0 ? decoded.code_point : kNoCharacter;

    // Steps that eat nothing only lead forward, so one pass in rising order follows them all; it
    // sees the states that it adds because it reads the word again for each one.
    std::fill_n(next->begin(), words, 0);
    bool alive = false;
    for (std::size_t word = 0; word < words; ++word) {
      std::uint64_t done = 0;
      while (const std::uint64_t left = (*now)[word] & ~done) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(left));
        done |= std::uint64_t{1} << bit;
        const std::size_t state = word * kWordBits + bit;
        const Instruction& instruction = program_[state];
        if (instruction.op == Op::kJump || instruction.op == Op::kFork) {
          add(*now, instruction.a);
        }
        if (instruction.op == Op::kStar || instruction.op == Op::kFork) add(*now, state + 1);
        if (at_end) {
          if (instruction.op == Op::kAccept) return true;
        } else if (eats(instruction, c)) {
          add(*next, instruction.op == Op::kStar ? state : state + 1);
          alive = true;
        }
      }
    }
    if (!alive) return false;
    offset += std::max<std::size_t>(decoded.length, 1);
    std::swap(now, next);
  }
}

}  // namespace espalier
