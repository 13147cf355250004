// What the steps that make a plan share: what they plan, what they know, and what they have made.
#ifndef ESPALIER_MAP_PLANNING_H_
#define ESPALIER_MAP_PLANNING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/axes.h"
#include "espalier/map/blocks.h"
#include "espalier/map/map_error.h"
#include "espalier/map/plan.h"
#include "espalier/map/rule.h"

namespace espalier {

/// A leaf that a name of a rule fits.
struct FoundLeaf {
  std::uint32_t leaf = 0;
  std::uint32_t tensor = 0;  // number on the side that is read
  std::uint32_t name = 0;    // number of the name of a tie
  CaptureValues values;
};

/// Why a word has its size: "as given", "by num_attention_heads".
using Origins = std::map<std::string, std::string, std::less<>>;

struct Planning {
  const KeyMap& map;
  const MapPlanOptions& options;
  std::span<const MapLeaf> leaves;

  /// By rule.
  std::vector<std::vector<FoundLeaf>> found = {};
  /// By leaf: a rule that reads it, or MapTarget::kKept.
  std::vector<std::uint32_t> taken = {};
  std::unordered_map<std::string_view, std::uint32_t> numbers_by_name = {};

  /// What words stand for before any tensor is looked at.
  Sizes sizes = {};
  std::map<std::string, double, std::less<>> numbers = {};
  Origins origins = {};
  /// The numbers that words have in names, by rule.
  std::map<std::string, std::map<std::uint32_t, std::set<std::uint64_t>>> families = {};
  /// Of an adapter, by rule and word: the numbers that this rule and those that must be used have.
  std::map<std::pair<std::uint32_t, std::string>, std::set<std::uint64_t>> numbers_by_word = {};

  /// As MapPlan has them.
  std::vector<MapTarget> targets = {};
  std::vector<MapEqual> equals = {};
  std::vector<MapLost> losses = {};
  std::vector<MapRuleCount> rules = {};
  std::map<std::string, std::uint64_t> guessed = {};
  std::vector<std::string> notes = {};
  /// By word that only pads have: its first size, and the tensor that has it.
  std::map<std::string, std::pair<std::uint64_t, std::string>> pads = {};
  /// What has limits: pieces, and the names that targets have.
  std::size_t pieces = 0;
  std::uint64_t names = 0;
  std::uint64_t name_bytes = 0;

  bool are_adapted() const { return options.parameters == MapParameters::kAdapted; }
};

/// A rule while it is planned.
struct PlannedRule {
  PlannedRule(Planning& by, const Rule& of, std::uint32_t at)
      : planning(by),
        rule(of),
        number(at),
        read(of.side(!by.options.reverse)),
        written(of.side(by.options.reverse)),
        reads(tensors_of(read)),
        writes(tensors_of(written)) {}

  const MapLeaf& leaf(std::uint32_t of) const { return planning.leaves[of]; }

  /// The words that number a tensor of one side along an axis of the other.
  std::vector<std::size_t> words_of_read(const TensorTerm& tensor) const {
    return stacked_words(rule, tensor, written);
  }
  std::vector<std::size_t> words_of_written(const TensorTerm& tensor) const {
    return stacked_words(rule, tensor, read);
  }

  tl::unexpected<Error> failed(ErrorCode code, const std::string& message) const {
    return fail_rule(number, code, message);
  }
  tl::unexpected<Error> failed(const Error& error) const {
    return failed(error.code, error.message);
  }

  Planning& planning;
  const Rule& rule;
  std::uint32_t number;
  const std::vector<Part>& read;
  const std::vector<Part>& written;
  std::vector<const TensorTerm*> reads;
  std::vector<const TensorTerm*> writes;
};

}  // namespace espalier

#endif  // ESPALIER_MAP_PLANNING_H_
