// Evaluates patterns step by step during a walk down the tree.
#ifndef ESPALIER_READ_PATTERN_STEPPER_H_
#define ESPALIER_READ_PATTERN_STEPPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/read/checkpoint.h"
#include "espalier/tree/pattern.h"

namespace espalier {

/// Patterns select each node that one of them matches, and everything below it. No patterns select
/// everything. Every walk that takes patterns asks a stepper, so all of them select the same nodes.
///
/// A stepper remembers its way down from the root. It also remembers which patterns have matched a
/// node, over all walks that use it. Not thread-safe.
class PatternStepper {
 public:
  /// The verdict of the patterns on one node; each implies the one before it.
  enum class Verdict : std::uint8_t {
    kLeftOut,   // they select neither the node nor anything below it
    kOpen,      // they do not select the node, but may select something below it
    kSelected,  // they select the node and all below it
    kSettled,   // the same, and a walk need not ask about what is below
  };
  static bool is_selected(Verdict verdict) { return verdict >= Verdict::kSelected; }

  /// The patterns must outlive the stepper, and so must the checkpoints that it is used on.
  explicit PatternStepper(std::span<const Pattern> patterns);

  /// Begins a walk at a root, at depth 0. Patterns match key paths from there on.
  Verdict start();
  /// Goes from `parent`, the latest node at `depth` - 1, to its child number `i`.
  Verdict step(std::size_t depth, const NodeRef& parent, std::uint32_t i);

  /// kNotFound for the first pattern that has matched no node. Call it after a walk of a whole
  /// tree.
  [[nodiscard]] Result<void> check_all_matched() const;

 private:
  // The state that a pattern reached from another state by a plain text. Nested trees repeat a few
  // texts in every layer.
  struct KnownStep {
    const Catalog* catalog = nullptr;
    std::uint32_t text = 0;
    std::uint32_t pattern = 0;
    Pattern::State from = 0;
    Pattern::State to = 0;
  };
  static constexpr std::size_t kKnownSteps = 256;

  Pattern::State* states(std::size_t depth) { return states_.data() + depth * patterns_.size(); }
  Pattern::State step_by_text(const KnownStep& wanted);
  void learn(KnownStep& known, const KnownStep& wanted);
  template <class Next>
  Verdict advance(std::size_t depth, bool is_inherited, Next next);

  std::span<const Pattern> patterns_;
  std::vector<bool> matched_;  // by pattern
  std::size_t unmatched_;      // how many patterns have matched nothing
  // By depth: the states of all patterns, and whether the node is selected.
  std::vector<Pattern::State> states_;
  std::vector<std::uint8_t> selected_;
  std::array<KnownStep, kKnownSteps> known_;
  std::string segment_;  // scratch
};

}  // namespace espalier

#endif  // ESPALIER_READ_PATTERN_STEPPER_H_
