// Which leaves the rules of a key map take, and which of these belong together.
#ifndef ESPALIER_MAP_RULE_LEAVES_H_
#define ESPALIER_MAP_RULE_LEAVES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/map/planning.h"

namespace espalier {

/// Whether the rule goes in this direction.
bool is_active(const Rule& rule, bool reverse);

/// Gives every leaf to the rule that it fits. kNameCollision, kMapAmbiguous.
[[nodiscard]] Result<void> match_leaves(Planning& planning);

/// An element's position in a name's family, for the words that number tensors along an axis.
using Index = std::vector<std::uint64_t>;

/// A leaf for a tensor of an instance.
struct Candidate {
  std::uint32_t name = 0;
  std::uint32_t leaf = 0;
};

/// The leaves for one tensor, by the index of stacked words. Several for a tie, or for copies: the
/// first is read, and the others must be equal.
using Candidates = std::map<Index, std::vector<Candidate>>;

/// Leaves that a rule takes together.
struct Instance {
  CaptureValues values;  // of the words that both sides have
  std::vector<Candidates> tensors;
};

/// The first leaf of a tensor that is there.
inline std::uint32_t first_leaf(const Candidates& candidates) {
  return candidates.begin()->second.front().leaf;
}

/// The quoted name of the first tensor that is there; empty if none is.
std::string first_name(const PlannedRule& rule, const Instance& instance);

/// The instances of a rule, by the values of the words that both sides have.
std::map<std::vector<CaptureValue>, Instance> instances_of(const PlannedRule& rule);

/// Adds the tensors that other rules may take, too, and puts candidates in the order of their
/// names. kMapIncomplete if one is missing.
[[nodiscard]] Result<void> complete_instance(const PlannedRule& rule, Instance& instance);

/// The values, with one of its own for each word that has none: for names in messages.
CaptureValues filled(CaptureValues values);

}  // namespace espalier

#endif  // ESPALIER_MAP_RULE_LEAVES_H_
