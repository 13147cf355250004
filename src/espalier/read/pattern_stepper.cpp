#include "espalier/read/pattern_stepper.h"

#include <algorithm>
#include <utility>

#include "espalier/format/access.h"

namespace espalier {

PatternStepper::PatternStepper(std::span<const Pattern> patterns)
    : patterns_(patterns), matched_(patterns.size()), unmatched_(patterns.size()) {}

// Whether pattern number `i` matches at a position. Remembers it.
inline bool PatternStepper::accepts(std::size_t i, Pattern::State position) {
  if (!patterns_[i].accepts(position)) return false;
  if (!matched_[i]) {
    matched_[i] = true;
    --unmatched_;
  }
  return true;
}

PatternStepper::State PatternStepper::state_of(const Positions& positions) {
  const auto [at, is_new] = states_.try_emplace(positions, State{0});
  if (is_new) {
    const bool is_alive = std::any_of(positions.begin(), positions.end(),
                                      [](Pattern::State position) { return position != 0; });
    const Verdict verdict = positions.back() != 0 ? Verdict::kSelected
                            : is_alive            ? Verdict::kOpen
                                                  : Verdict::kLeftOut;
    at->second = static_cast<State>(4 * positions_.size()) + static_cast<State>(verdict);
    positions_.push_back(&at->first);
  }
  return at->second;
}

PatternStepper::Verdict PatternStepper::start() {
  next_.assign(patterns_.size() + 1, 0);
  bool is_selected = patterns_.empty();
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    next_[i] = patterns_[i].start();
    if (accepts(i, next_[i])) is_selected = true;
  }
  next_.back() = is_selected ? 1 : 0;
  path_.assign(1, state_of(next_));
  return verdict(path_[0]);
}

PatternStepper::Verdict PatternStepper::step(std::size_t depth, const Catalog& catalog,
                                             std::uint32_t parent, std::uint32_t child) {
  if (path_.size() <= depth) path_.resize(depth + 1);
  const State from = path_[depth - 1];
  if (verdict(from) == Verdict::kSettled) {
    path_[depth] = from;
    return Verdict::kSettled;
  }
  const auto nodes = catalog.tables().nodes;
  const NodeRecord& record = nodes[child];
  State to = 0;
  // Only keys of dicts and records are texts.
  const bool is_text = record.key_kind == static_cast<std::uint8_t>(KeyKind::kText);
  const KnownStep& step = known(record.key, from);
  if (is_text && step.text == record.key && step.from == from && step.catalog == &catalog) {
    to = step.to;
  } else if (is_text && catalog.is_plain_text(record.key)) {
    to = learn(depth, catalog, record.key);
  } else {
    to = step_by_key(depth, {&catalog, parent}, child - nodes[parent].value);
  }
  path_[depth] = to;
  return verdict(to);
}

[[gnu::noinline]] PatternStepper::State PatternStepper::learn(std::size_t depth,
                                                              const Catalog& catalog,
                                                              std::uint32_t text) {
  const State to = step_by_segment(depth, table_text(catalog.tables(), text), false);
  // It may have another number now.
  const State from = path_[depth - 1];
  known(text, from) = {&catalog, text, from, to};
  return to;
}

[[gnu::noinline]] PatternStepper::State PatternStepper::step_by_key(std::size_t depth,
                                                                    const NodeRef& parent,
                                                                    std::uint32_t i) {
  const KeyView key = parent.key(i);
  const DigitMark mark = parent.digit_mark(key);
  segment_.clear();
  append_segment(segment_, key, mark);
  return step_by_segment(depth, segment_, mark == DigitMark::kNever);
}

PatternStepper::State PatternStepper::step_by_segment(std::size_t depth, std::string_view segment,
                                                      bool is_unmarked) {
  if (positions_.size() >= kMaxStates + depth) forget_states(depth);
  const State from = path_[depth - 1];
  const Positions& before = *positions_[from / 4];
  next_.back() = before.back();
  bool is_same = true;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    next_[i] = patterns_[i].step(before[i], segment, is_unmarked);
    is_same = is_same && next_[i] == before[i];
    if (accepts(i, next_[i])) next_.back() = 1;
  }
  return is_same && next_.back() == before.back() ? from : state_of(next_);
}

// Keeps those of the nodes above `depth`, with other numbers.
void PatternStepper::forget_states(std::size_t depth) {
  const auto states = std::exchange(states_, {});
  const auto positions = std::exchange(positions_, {});
  known_ = {};
  for (std::size_t i = 0; i < depth; ++i) {
    path_[i] = state_of(*positions[path_[i] / 4]);
  }
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
