// Names of tensors with captures: "layers.{i}.mlp.{w:up|down}.weight".
//
// docs/key-maps.md describes the captures.
#ifndef ESPALIER_MAP_NAME_PATTERN_H_
#define ESPALIER_MAP_NAME_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace espalier {

/// The largest number that an integer capture takes from a name, and the largest factor and shift.
/// Their product and sum fit 64 bits.
inline constexpr std::int64_t kMaxNameNumber = 1'000'000'000'000;
inline constexpr std::int64_t kMaxNameFactor = 1'000'000;

/// What a capture stands for in one name.
struct CaptureValue {
  /// The integer, or the position among the texts of a choice.
  std::int64_t number = 0;
  /// The text of kText and kPath.
  std::string text = {};

  friend bool operator==(const CaptureValue&, const CaptureValue&) = default;
  friend bool operator<(const CaptureValue& a, const CaptureValue& b) {
    return std::tie(a.number, a.text) < std::tie(b.number, b.text);
  }
};

/// A part of a name that differs from tensor to tensor.
struct Capture {
  enum class Kind : std::uint8_t {
    kInteger,  // {i}, {i+5}, {6*b+j}: a whole number in decimals
    kChoice,   // {w:weight|bias}, or the word of a table: one of `texts`
    kEither,   // {|a|b}: any of `texts` is read, the first is written
    kText,     // {s*}: text within one segment
    kPath,     // {p...}: one or more whole segments
    kCopies,   // {r=}: a whole number; the tensors of all numbers are equal
  };

  Kind kind = Kind::kInteger;
  /// Empty for kEither.
  std::string word = {};
  /// Of kInteger: the number is `factor` * word + low + shift, and `low`, if there is such a word,
  /// is less than `factor`.
  std::uint64_t factor = 1;
  std::string low = {};
  std::int64_t shift = 0;
  /// Of kChoice and kEither.
  std::vector<std::string> texts = {};
};

/// The values of the words of a rule, by their numbers there; nothing where a name lacks the word.
using CaptureValues = std::vector<std::optional<CaptureValue>>;

/// A name with captures. Immutable; const access is thread-safe.
class NamePattern {
 public:
  /// A literal text, or a capture.
  struct Item {
    std::string literal = {};
    std::optional<Capture> capture = std::nullopt;
    /// The numbers of the capture's words among those of the rule: `word`, then `low`.
    std::size_t word = 0;
    std::size_t low = 0;
  };

  NamePattern() = default;
  explicit NamePattern(std::vector<Item> items) : items_(std::move(items)) {}

  std::span<const Item> items() const { return items_; }
  /// Whether `name` has the form of the pattern. If so, puts the values of its words into `values`,
  /// which has a place for each word of the rule, and leaves the others. Where a name can be read
  /// in several ways, the first choice that fits is taken, and the shortest text. Segments end at
  /// `separator`. Takes time linear in the name for one pattern.
  bool match(std::string_view name, char separator, CaptureValues& values) const;
  /// The name for these values; every word of the pattern has one.
  std::string write(const CaptureValues& values) const;
  /// The last segment, without captures; empty if it has one, or is the only one.
  std::string_view last_segment(char separator) const;
  /// Whether the pattern has a word of that number.
  bool has_word(std::size_t word) const;

 private:
  class Matcher;
  std::vector<Item> items_;
};

}  // namespace espalier

#endif  // ESPALIER_MAP_NAME_PATTERN_H_
