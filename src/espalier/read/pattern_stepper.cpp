#include "espalier/read/pattern_stepper.h"

#include "espalier/format/access.h"

namespace espalier {

PatternStepper::PatternStepper(std::span<const Pattern> patterns)
    : patterns_(patterns), matched_(patterns.size()), unmatched_(patterns.size()) {}

void PatternStepper::learn(KnownStep& known, const KnownStep& wanted) {
  known = wanted;
  known.to = patterns_[wanted.pattern].step(wanted.from,
                                            table_text(wanted.catalog->tables(), wanted.text));
}

inline Pattern::State PatternStepper::step_by_text(const KnownStep& wanted) {
  KnownStep& known = known_[(wanted.text + 31 * wanted.from + 7 * wanted.pattern) % kKnownSteps];
  if (known.text != wanted.text || known.from != wanted.from || known.pattern != wanted.pattern ||
      known.catalog != wanted.catalog) {
    learn(known, wanted);
  }
  return known.to;
}

// Stores the states of all patterns at `depth`, which `next` returns, and derives the verdict.
template <class Next>
PatternStepper::Verdict PatternStepper::advance(std::size_t depth, bool is_inherited, Next next) {
  bool is_selected = is_inherited;
  bool is_alive = is_inherited;
  Pattern::State* to = states(depth);
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    to[i] = next(i);
    is_alive = is_alive || to[i] != 0;
    if (!patterns_[i].accepts(to[i])) continue;
    is_selected = true;
    if (!matched_[i]) {
      matched_[i] = true;
      --unmatched_;
    }
  }
  selected_[depth] = is_selected ? 1 : 0;
  if (is_selected) return unmatched_ == 0 ? Verdict::kSettled : Verdict::kSelected;
  return is_alive ? Verdict::kOpen : Verdict::kLeftOut;
}

PatternStepper::Verdict PatternStepper::start() {
  states_.resize(patterns_.size());
  selected_.resize(1);
  return advance(0, patterns_.empty(), [&](std::size_t k) { return patterns_[k].start(); });
}

PatternStepper::Verdict PatternStepper::step(std::size_t depth, const NodeRef& parent,
                                             std::uint32_t i) {
  if (selected_.size() <= depth) {
    selected_.resize(depth + 1);
    states_.resize((depth + 1) * patterns_.size());
  }
  const bool is_inherited = selected_[depth - 1] != 0;
  if (is_inherited && unmatched_ == 0) {
    selected_[depth] = 1;
    return Verdict::kSettled;
  }
  const Pattern::State* from = states(depth - 1);
  const Catalog& catalog = parent.catalog();
  const auto nodes = catalog.tables().nodes;
  const NodeRecord& around = nodes[parent.number()];
  const NodeRecord& record = nodes[around.value + i];
  if (has_keys(node_kind(around)) && record.key_kind == static_cast<std::uint8_t>(KeyKind::kText) &&
      catalog.is_plain_text(record.key)) {
    return advance(depth, is_inherited, [&](std::size_t k) {
      return step_by_text({&catalog, record.key, static_cast<std::uint32_t>(k), from[k]});
    });
  }
  const KeyView key = parent.key(i);
  const DigitMark mark = parent.digit_mark(key);
  segment_.clear();
  append_segment(segment_, key, mark);
  return advance(depth, is_inherited, [&](std::size_t k) {
    return patterns_[k].step(from[k], segment_, mark == DigitMark::kNever);
  });
}

Result<void> PatternStepper::check_all_matched() const {
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (!matched_[i]) {
      return fail(ErrorCode::kNotFound,
                  "no node matches the pattern '" + std::string(patterns_[i].text()) + "'");
    }
  }
  return {};
}

}  // namespace espalier
