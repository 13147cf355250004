#include "espalier/map/rule_targets.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "espalier/base/stars.h"
#include "espalier/map/compute.h"
#include "espalier/map/instance_sizes.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/map_words.h"
#include "espalier/map/pieces.h"

namespace espalier {
namespace {

NumberStep::Kind inverse(NumberStep::Kind kind) {
  switch (kind) {
    case NumberStep::Kind::kAdd:
      return NumberStep::Kind::kSubtract;
    case NumberStep::Kind::kSubtract:
      return NumberStep::Kind::kAdd;
    case NumberStep::Kind::kMultiply:
      return NumberStep::Kind::kDivide;
    case NumberStep::Kind::kDivide:
      return NumberStep::Kind::kMultiply;
  }
  return kind;
}

bool is_scaling(NumberStep::Kind kind) {
  return kind == NumberStep::Kind::kMultiply || kind == NumberStep::Kind::kDivide;
}

// The word of {r=} in a name.
std::optional<std::size_t> copies_word(const TensorName& name) {
  for (const NamePattern::Item& item : name.pattern.items()) {
    if (item.capture && item.capture->kind == Capture::Kind::kCopies) return item.word;
  }
  return std::nullopt;
}

Result<std::uint64_t> copies_of(const PlannedRule& rule, const TensorName& name,
                                const Sizes& sizes) {
  const auto number = copies_word(name);
  if (!number) return 1;
  const std::string& word = rule.rule.words[*number];
  const auto size = sizes.find(word);
  if (size != sizes.end() && size->second != 0) return size->second;
  return rule.failed(ErrorCode::kMapUndetermined,
                     "how many copies {" + word +
                         "=} are to be written is not known; give it: --set " + word + "=...");
}

// A name that would be read as another one's is no proof of an inverse.
Result<std::string> write_name(const PlannedRule& rule, const TensorName& name,
                               const CaptureValues& values) {
  std::string text = name.pattern.write(values);
  CaptureValues again(rule.rule.words.size());
  const char separator = rule.planning.map.parts().side(rule.planning.options.reverse).separator();
  bool is_same = name.pattern.match(text, separator, again);
  for (std::size_t word = 0; is_same && word < again.size(); ++word) {
    is_same = !name.pattern.has_word(word) || again[word] == values[word];
  }
  if (is_same) return text;
  return rule.failed(ErrorCode::kMapAmbiguous, "the name " + in_quotes(text) +
                                                   " that it makes would be read back with other "
                                                   "captures; make the name more exact");
}

Result<void> add_step(const PlannedRule& rule, const NumberStep& step, bool inverts,
                      const Sizes& sizes, std::vector<MapStep>& steps) {
  const auto value = value_of(rule, step.scalar, !is_scaling(step.kind), sizes);
  if (!value) return propagate(value);
  steps.push_back({inverts ? inverse(step.kind) : step.kind, *value});
  return {};
}

// A gradient does not change with a constant that is added, and changes with 1/c if its parameter
// is scaled by c. The learning rate of the parameter would have to change, too.
Result<std::vector<MapStep>> steps_of_moments(const PlannedRule& rule,
                                              const std::vector<MapStep>& steps) {
  using Slot = MapAlong::Slot;
  const Slot slot = *rule.planning.options.slot;
  const bool is_squared = slot == Slot::kMoment2 || slot == Slot::kUpdate2;
  const bool is_absolute = slot == Slot::kMagnitude || slot == Slot::kStepSize;
  const bool follows = slot == Slot::kUpdate2 || slot == Slot::kStepSize;
  std::vector<MapStep> scaled;
  bool is_scaled = false;
  for (const MapStep& step : steps) {
    if (!is_scaling(step.kind)) continue;
    is_scaled = true;
    if (slot == Slot::kUnscaled) continue;
    const double value = is_absolute ? std::abs(step.value) : step.value;
    scaled.push_back(
        {follows ? step.kind : inverse(step.kind), is_squared ? value * value : value});
  }
  if (!is_scaled || rule.planning.options.scales_moments) return scaled;
  return rule.failed(ErrorCode::kMapNotInvertible,
                     "it scales a parameter, whose moments would have another learning rate; "
                     "--along-scaled scales them all the same");
}

// Makes a rename one piece, so that its elements can change.
Result<void> make_piece(const PlannedRule& rule, MapTarget& target) {
  if (target.source == MapPiece::kZeros) return {};
  const MapLeaf& source = rule.leaf(target.source);
  if (auto ok = check_tensor(rule, source); !ok) return ok;
  if (!can_compute(source.dtype)) return cannot_compute(rule, source.name, source.dtype);
  MapPiece piece;
  piece.source = target.source;
  piece.loops = {{elements_of(source.shape), 1, 1}};
  target.pieces.clear();
  if (settle(piece.loops)) target.pieces.push_back(std::move(piece));
  target.source = MapPiece::kZeros;
  return {};
}

}  // namespace

bool is_alike(const TensorTerm& tensor, std::size_t name) {
  if (!tensor.axes()) return true;
  return to_string(*tensor.names[name].axes) == to_string(*tensor.axes());
}

bool has_copies(const TensorTerm& tensor) {
  return std::any_of(tensor.names.begin(), tensor.names.end(),
                     [](const TensorName& name) { return copies_word(name).has_value(); });
}

Result<void> add_rename(const PlannedRule& rule, std::uint32_t source,
                        const CaptureValues& values) {
  const TensorTerm& written = *rule.writes.front();
  const Sizes& sizes = rule.planning.sizes;
  MapTarget target;
  if (auto ok = add_names(rule, written, 0, values, sizes, target); !ok) return ok;
  target.rule = rule.number;
  target.source = source;
  target.dtype = rule.leaf(source).dtype;
  target.shape = rule.leaf(source).shape;
  if (const auto dtype = wanted_dtype(rule, written, target.name)) {
    if (auto ok = cast_target(rule, target, *dtype); !ok) return ok;
  }
  const auto steps = steps_between(rule, 0, 0, sizes);
  if (!steps) return propagate(steps);
  if (!steps->empty()) {
    if (auto ok = make_piece(rule, target); !ok) return ok;
    // An empty tensor has no piece.
    for (MapPiece& piece : target.pieces) piece.steps = *steps;
    target.work = MapWork::kArithmetic;
  }
  add_target(rule, std::move(target));
  return {};
}

Result<void> add_names(const PlannedRule& rule, const TensorTerm& tensor, std::size_t first,
                       CaptureValues values, const Sizes& sizes, MapTarget& target) {
  for (std::size_t i = first; i < tensor.names.size(); ++i) {
    const TensorName& name = tensor.names[i];
    if (i > first && (first > 0 || name.is_optional || !is_alike(tensor, i))) continue;
    const auto copies = copies_of(rule, name, sizes);
    if (!copies) return propagate(copies);
    // Before the first: {r=} of a few bytes could name a tensor a million times.
    if (*copies > most_names(rule.planning) - rule.planning.names) return too_many(rule);
    rule.planning.names += *copies;
    const auto word = copies_word(name);
    for (std::uint64_t copy = 0; copy < *copies; ++copy) {
      if (word) values[*word] = CaptureValue{static_cast<std::int64_t>(copy), {}};
      auto text = write_name(rule, name, values);
      if (!text) return propagate(text);
      rule.planning.name_bytes += text->size();
      if (rule.planning.name_bytes > kMaxNameBytes) return too_many(rule);
      if (target.name.empty()) {
        target.name = std::move(*text);
      } else {
        target.tied.push_back(std::move(*text));
      }
    }
  }
  return {};
}

Result<std::vector<MapStep>> steps_between(const PlannedRule& rule, std::size_t read,
                                           std::size_t written, const Sizes& sizes) {
  const auto from = as_plain(rule.read[read]);
  const auto to = as_plain(rule.written[written]);
  std::vector<MapStep> steps;
  for (const NumberStep& step : from->steps) {
    if (auto ok = add_step(rule, step, false, sizes, steps); !ok) return propagate(ok);
  }
  for (std::size_t i = to->steps.size(); i-- > 0;) {
    if (auto ok = add_step(rule, to->steps[i], true, sizes, steps); !ok) return propagate(ok);
  }
  const auto& slot = rule.planning.options.slot;
  if (!slot || *slot == MapAlong::Slot::kWeight) return steps;
  return steps_of_moments(rule, steps);
}

Result<double> value_of(const PlannedRule& rule, const Scalar& scalar, bool can_be_zero,
                        const Sizes& sizes) {
  const auto value = evaluate(scalar, [&](const std::string& word) {
    if (const auto size = sizes.find(word); size != sizes.end()) {
      return std::optional(static_cast<double>(size->second));
    }
    return number_of(rule.planning, word);
  });
  if (value && std::isfinite(*value) && (can_be_zero || *value != 0)) return *value;
  return rule.failed(ErrorCode::kMapUndetermined,
                     "the number " + to_string(scalar) +
                         " cannot be computed; give its sizes with --set or --config");
}

// State along a parameter keeps its dtype.
std::optional<DType> wanted_dtype(const PlannedRule& rule, const TensorTerm& written,
                                  const std::string& name) {
  if (rule.planning.options.slot || rule.planning.are_adapted()) return std::nullopt;
  if (written.as) return written.as;
  for (const auto& [pattern, dtype] : rule.planning.map.parts().dtypes) {
    if (matches_stars(pattern, name)) return dtype;
  }
  return std::nullopt;
}

Result<void> cast_target(const PlannedRule& rule, MapTarget& target, DType dtype) {
  if (target.dtype == dtype) return {};
  if (auto ok = make_piece(rule, target); !ok) return ok;
  if (!can_compute(target.dtype) || !can_compute(dtype)) {
    return rule.failed(ErrorCode::kMapShape, in_quotes(target.name) + " would change from " +
                                                 std::string(dtype_name(target.dtype)) + " to " +
                                                 std::string(dtype_name(dtype)) +
                                                 "; only f16, bf16, f32 and f64 are converted");
  }
  target.dtype = dtype;
  target.work = MapWork::kArithmetic;
  return {};
}

tl::unexpected<Error> cannot_compute(const PlannedRule& rule, std::string_view name, DType dtype) {
  return rule.failed(ErrorCode::kMapShape, in_quotes(name) + " is " +
                                               std::string(dtype_name(dtype)) +
                                               ", and arithmetic is for f16, bf16, f32 and f64");
}

void add_target(const PlannedRule& rule, MapTarget target) {
  MapRuleCount& count = rule.planning.rules[rule.number];
  ++count.targets;
  count.work = std::max(count.work, target.work);
  rule.planning.targets.push_back(std::move(target));
}

// An adapted weight becomes two factors.
std::uint64_t most_names(const Planning& planning) {
  return planning.leaves.size() + (planning.are_adapted() ? kMaxTargets / 2 : kMaxTargets);
}

tl::unexpected<Error> too_many(const PlannedRule& rule) {
  return rule.failed(ErrorCode::kLimitExceeded,
                     "with the rules before it, it makes more than 16,777,216 pieces, " +
                         std::to_string(most_names(rule.planning)) +
                         " names of tensors, or 256 MiB of names");
}

}  // namespace espalier
