#include "espalier/read/select.h"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "espalier/read/to_value.h"

namespace espalier {
namespace {

std::string printed_segment(KeyView key) {
  std::string segment;
  append_segment(segment, key);
  return segment;
}

class Selector {
 public:
  Selector(PatternSet& patterns, const TensorMaker& make) : patterns_(patterns), make_(make) {}

  // What is left of `node`; nothing if nothing is.
  Result<std::optional<Value>> build(const NodeRef& node, const PatternSet::Place& place) {
    if (!is_container(node.kind())) {
      if (!place.selected) return std::optional<Value>();
      auto value = build_leaf(node);
      if (!value) return propagate(value);
      return std::optional<Value>(std::move(*value));
    }
    Value value = to_value_alone(node);
    bool kept = place.selected;
    // Elements that are left out, until it is known whether anything of their list is kept.
    const bool positional = node.kind() == Kind::kList || node.kind() == Kind::kTuple;
    std::vector<std::optional<Value>> elements;
    PatternSet::Place child_place;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      patterns_.step(place, printed_segment(node.key(i)), child_place);
      Result<std::optional<Value>> child;
      if (child_place.alive) child = build(node.child(i), child_place);
      if (!child) return child;
      kept = kept || child->has_value();
      if (positional) {
        elements.push_back(std::move(*child));
      } else if (*child) {
        add_child(value, node, i, std::move(**child));
      }
    }
    if (!kept) return std::optional<Value>();
    for (std::uint32_t i = 0; i < elements.size(); ++i) {
      value.add(elements[i] ? std::move(*elements[i]) : to_value(node.child(i)));
    }
    return std::optional<Value>(std::move(value));
  }

 private:
  static void add_child(Value& value, const NodeRef& node, std::uint32_t i, Value child) {
    if (has_keys(node.kind())) {
      value.add(Key(node.key(i)), std::move(child));
    } else {
      value.add(std::move(child));
    }
  }

  Result<Value> build_leaf(const NodeRef& node) {
    const auto ref = node.tensor();
    if (!ref) return to_value_alone(node);
    const auto [at, is_new] = tensors_.try_emplace(ref->number());
    if (is_new) {
      auto tensor = make_(*ref);
      if (!tensor) return propagate(tensor);
      at->second = std::make_shared<const Tensor>(std::move(*tensor));
    }
    Value value = Value::tensor(at->second);
    if (const auto label = node.label()) return std::move(value).labelled(std::string(*label));
    return value;
  }

  PatternSet& patterns_;
  const TensorMaker& make_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const Tensor>> tensors_;
};

}  // namespace

bool SelectedWalker::next() {
  while (walker_.next()) {
    const std::size_t depth = walker_.depth();
    if (places_.size() <= depth) places_.resize(depth + 1);
    PatternSet::Place& place = places_[depth];
    if (depth == 0) {
      place = patterns_.start();
    } else {
      // A printed segment has no slash of its own.
      const std::string_view path = walker_.path();
      patterns_.step(places_[depth - 1], path.substr(path.rfind('/') + 1), place);
    }
    if (place.selected) return true;
    if (!place.alive) walker_.skip_children();
  }
  return false;
}

Result<Value> select(const NodeRef& root, const KeyPath& path, PatternSet& patterns,
                     const TensorMaker& make) {
  auto node = root.at(path);
  if (!node) return propagate(node);
  PatternSet::Place place = patterns.start();
  for (const Key& key : path) {
    PatternSet::Place child;
    patterns.step(place, printed_segment(key.view()), child);
    place = std::move(child);
  }
  auto built = Selector(patterns, make).build(*node, place);
  if (!built) return propagate(built);
  if (auto ok = patterns.check_all_matched(); !ok) return propagate(ok);
  if (!*built) {
    return fail(ErrorCode::kNotFound, "the patterns select nothing below this root",
                Error::kNoOffset, path.to_string());
  }
  return std::move(**built);
}

}  // namespace espalier
