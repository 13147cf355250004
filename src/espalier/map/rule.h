// A rule of a key map: two sides that name the same elements.
#ifndef ESPALIER_MAP_RULE_H_
#define ESPALIER_MAP_RULE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/map/axes.h"
#include "espalier/map/name_pattern.h"
#include "espalier/map/scalar.h"

namespace espalier {

/// One name of a tensor in a rule.
struct TensorName {
  NamePattern pattern;
  /// `name?`: may be absent when read, and is not written.
  bool is_optional = false;
  /// Nothing if the rule has no axes: the whole tensor, or any other value.
  std::optional<Axes> axes = std::nullopt;
};

/// A tensor in a rule, or a stretch of a target that no tensor fills.
struct TensorTerm {
  enum class Kind : std::uint8_t {
    kTensor,
    kZeros,  // zeros [axes]: a block of zeros
    kPad,    // pad [axes]: zeros when written, anything when read
  };
  Kind kind = Kind::kTensor;
  /// Several for a tie, "a = b": one tensor under all of them.
  std::vector<TensorName> names = {};
  /// `@name`: looked up when the other parts are found. Other rules may take the same tensor.
  bool is_looked_up = false;
  /// The dtype on this side.
  std::optional<DType> as = std::nullopt;

  const std::optional<Axes>& axes() const { return names.front().axes; }
};

/// A summand of a part: a number times tensors.
struct Term {
  bool is_subtracted = false;
  /// Factors in order, and whether each is a divisor.
  std::vector<std::pair<Scalar, bool>> scalars = {};
  std::vector<TensorTerm> tensors = {};
};

/// What stands between commas: mostly one tensor.
struct Part {
  std::vector<Term> terms;
};

/// A step of arithmetic with a number.
struct NumberStep {
  enum class Kind : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide };
  Kind kind = Kind::kAdd;
  Scalar scalar = {};
};

struct Rule {
  enum class Direction : std::uint8_t { kBoth, kLeftToRight, kRightToLeft };

  /// The text, for messages.
  std::string text;
  std::vector<Part> left;
  std::vector<Part> right;
  /// Whether a side is `drop`: tensors of the other side are left out.
  bool drops_left = false;
  bool drops_right = false;
  /// `?` before the rule: it may be unused.
  bool is_optional = false;
  Direction direction = Direction::kBoth;
  /// The words of all captures.
  std::vector<std::string> words;

  const std::vector<Part>& side(bool is_left) const { return is_left ? left : right; }
};

/// A part that is one tensor, and steps from its elements to the part's value.
struct PlainPart {
  const TensorTerm* tensor = nullptr;
  std::vector<NumberStep> steps = {};
};

/// The part as one tensor with steps; nothing if it is a sum or a product of tensors.
std::optional<PlainPart> as_plain(const Part& part);

/// The texts of a table on the left and on the right.
struct Table {
  std::vector<std::string> left;
  std::vector<std::string> right;
};
using ChoiceTables = std::map<std::string, Table, std::less<>>;

/// What the rules of a map share.
struct RuleContext {
  /// What segments of names end with, on each side.
  char left_separator = '.';
  char right_separator = '.';
  ChoiceTables tables = {};
  /// The words that are numbers in expressions, besides the axes of the rule itself.
  std::set<std::string, std::less<>> sizes = {};
};

/// Most bytes of the text of a rule.
inline constexpr std::size_t kMaxRuleBytes = 65536;

/// Parses a rule. kMapInvalid, with a message that says what is wrong.
[[nodiscard]] Result<Rule> parse_rule(std::string_view text, const RuleContext& context);

/// Checks that every word and every block of one side has its counterpart on the other.
/// kMapInvalid, with a message that says what has none.
[[nodiscard]] Result<void> check_rule(const Rule& rule, const RuleContext& context);

/// The rule in one spelling: two rules that mean the same for every spelling of spaces have equal
/// texts.
std::string canonical_text(const Rule& rule);

}  // namespace espalier

#endif  // ESPALIER_MAP_RULE_H_
