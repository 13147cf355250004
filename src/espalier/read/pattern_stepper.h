// Evaluates patterns step by step during a walk down the tree.
#ifndef ESPALIER_READ_PATTERN_STEPPER_H_
#define ESPALIER_READ_PATTERN_STEPPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/pattern.h"

namespace espalier {

/// The verdict of the patterns on one node; each implies the one before it.
enum class PatternVerdict : std::uint8_t {
  kLeftOut,   // they select neither the node nor anything below it
  kOpen,      // they do not select the node, but may select something below it
  kSelected,  // they select the node and all below it
  kSettled,   // the same, and a walk need not ask about what is below
};

/// Patterns select each node that one of them matches, and everything below it. No patterns select
/// everything. Every walk that takes patterns asks a stepper, so all of them select the same nodes.
///
/// A stepper remembers its way down from the root. It also remembers which patterns have matched a
/// node, over all walks that use it. Not thread-safe.
class PatternStepper {
 public:
  using Verdict = PatternVerdict;
  static bool is_selected(Verdict verdict) { return verdict >= Verdict::kSelected; }

  /// The patterns must outlive the stepper, and so must the checkpoints that it is used on.
  explicit PatternStepper(std::span<const Pattern> patterns);
  PatternStepper(const PatternStepper&) = delete;
  PatternStepper& operator=(const PatternStepper&) = delete;

  /// Begins a walk at a root, at depth 0. Patterns match key paths from there on.
  Verdict start();
  /// Goes from `parent`, the latest node at `depth` - 1, to one of its children.
  Verdict step(std::size_t depth, const NodeRef& parent, const NodeRef& child) {
    return step(depth, parent.catalog(), parent.number(), child.number());
  }
  /// The same with the numbers of both nodes, which WebAssembly passes without memory.
  Verdict step(std::size_t depth, const Catalog& catalog, std::uint32_t parent,
               std::uint32_t child);

  /// kNotFound for the first pattern that has matched no node. Call it after a walk of a whole
  /// tree.
  [[nodiscard]] Result<void> check_all_matched() const;

 private:
  // Where each pattern has come to; the last one is 1 if the node is selected.
  using Positions = std::vector<Pattern::State>;
  // A state of all patterns together: four times its number, plus a verdict, never kSettled. Trees
  // repeat few of them, and few texts in every layer, so most steps are looked up.
  using State = std::uint32_t;
  // The state that a plain text leads to from another one.
  struct KnownStep {
    const Catalog* catalog = nullptr;
    std::uint32_t text = 0;
    State from = 0;
    State to = 0;
  };
  static constexpr std::size_t kKnownSteps = 256;
  // Besides those on the way down. A stranger's tree could have as many states as nodes.
  static constexpr std::size_t kMaxStates = 1024;

  KnownStep& known(std::uint32_t text, State from) {
    return known_[(text + 31 * from) % kKnownSteps];
  }
  Verdict verdict(State state) const {
    const Verdict verdict = static_cast<Verdict>(state % 4);
    return verdict == Verdict::kSelected && unmatched_ == 0 ? Verdict::kSettled : verdict;
  }
  State learn(std::size_t depth, const Catalog& catalog, std::uint32_t text);
  State step_by_key(std::size_t depth, const NodeRef& parent, std::uint32_t i);
  State step_by_segment(std::size_t depth, std::string_view segment, bool is_unmarked);
  bool accepts(std::size_t i, Pattern::State position);
  State state_of(const Positions& positions);
  void forget_states(std::size_t depth);

  std::span<const Pattern> patterns_;
  std::vector<bool> matched_;  // by pattern
  std::size_t unmatched_;      // how many patterns have matched nothing
  std::map<Positions, State> states_;
  std::vector<const Positions*> positions_;  // by number of the state; keys of states_
  std::vector<State> path_;                  // by depth
  std::array<KnownStep, kKnownSteps> known_;
  Positions next_;       // scratch
  std::string segment_;  // scratch
};

}  // namespace espalier

#endif  // ESPALIER_READ_PATTERN_STEPPER_H_
