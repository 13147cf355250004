#include "espalier/health/segment_trail.h"

#include <algorithm>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"

namespace espalier {
namespace {

// Odd, so that no power is 0. The hash of a path is a polynomial in it, of which a tail is a
// difference.
constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15;

// "optimizer", "Optimizer_0", "critic_optim", "opt_state", "gen_opt"; not "optics", nor "opt-125m",
// which is a model.
bool names_optimizer(std::string_view segment) {
  while (!segment.empty()) {
    const std::size_t end = std::min(segment.find('_'), segment.size());
    const std::string_view word = segment.substr(0, end);
    segment.remove_prefix(std::min(end + 1, segment.size()));
    if (is_one_of(word,
                  {"optimizer", "optimizers", "optimiser", "optimisers", "optim", "optims"})) {
      return true;
    }
    if (is_one_of(word, {"opt"}) && (segment.empty() || is_one_of(segment, {"state", "states"}))) {
      return true;
    }
  }
  return false;
}

// What people call the averages that they write themselves, beside the weights.
bool names_average(std::string_view segment) {
  return is_one_of(segment,
                   {"m", "v", "mu", "nu", "mom", "moment", "momentum", "moments", "velocity"});
}

bool is_decimal(std::string_view segment) {
  if (segment.substr(0, 2) == "~2") segment.remove_prefix(2);  // the text "3"
  return std::all_of(segment.begin(), segment.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void SegmentTrail::enter(std::size_t depth, std::string_view path) {
  State state = {};
  if (depth > 0) {
    states_.resize(depth);
    state = states_.back();
  } else {
    states_.clear();
  }
  segments_.resize(state.kept);
  key_ = unescaped(path.substr(std::min(state.path_size, path.size())));
  state.path_size = path.size();
  states_.push_back(state);
  for_each_segment(key_, [this](std::string_view segment) { add(segment); });
}

void SegmentTrail::add(std::string_view segment) {
  State& state = states_.back();
  const Role role = role_of(segment);
  state.hash = state.hash * kBase + hash64(as_bytes(segment));
  ++state.count;
  state.is_variance = state.is_variance || role == Role::kVariance;
  if (state.kept == kMost) return;
  segments_.push_back(
      {state.hash, role, names_optimizer(segment), names_average(segment), is_decimal(segment)});
  ++state.kept;
}

std::uint64_t SegmentTrail::tail(std::size_t i) const {
  const std::size_t behind = now().count - (i + 1);
  std::uint64_t power = 1;
  std::uint64_t base = kBase;
  for (std::size_t rest = behind; rest > 0; rest >>= 1) {
    if ((rest & 1) != 0) power *= base;
    base *= base;
  }
  return now().hash - segments_[i].path * power;
}

}  // namespace espalier
