#include "espalier/tree/pattern_set.h"

#include <utility>

namespace espalier {

Result<PatternSet> PatternSet::parse(std::span<const std::string> texts) {
  PatternSet set;
  for (const std::string& text : texts) {
    auto pattern = Pattern::parse(text);
    if (!pattern) {
      pattern.error().message = "pattern '" + text + "': " + pattern.error().message;
      return propagate(pattern);
    }
    set.patterns_.push_back(std::move(*pattern));
    set.texts_.push_back(text);
  }
  set.matched_.resize(texts.size());
  return set;
}

PatternSet::Place PatternSet::start() {
  Place place;
  for (const Pattern& pattern : patterns_) place.states.push_back(pattern.start());
  judge(patterns_.empty(), place);
  return place;
}

void PatternSet::step(const Place& parent, std::string_view segment, Place& child) {
  child.states.resize(patterns_.size());
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    child.states[i] = patterns_[i].step(parent.states[i], segment);
  }
  judge(parent.selected, child);
}

void PatternSet::judge(bool inherited, Place& place) {
  place.selected = inherited;
  place.alive = inherited;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (place.states[i] == 0) continue;
    place.alive = true;
    if (patterns_[i].accepts(place.states[i])) {
      place.selected = true;
      matched_[i] = true;
    }
  }
}

Result<void> PatternSet::check_all_matched() const {
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (!matched_[i]) {
      return fail(ErrorCode::kNotFound, "nothing that was looked through matches the pattern '" +
                                            texts_[i] + "'; `tree` shows what there is");
    }
  }
  return {};
}

}  // namespace espalier
