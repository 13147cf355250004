#include "espalier/read/select.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "espalier/read/pattern_stepper.h"
#include "espalier/read/to_value.h"

namespace espalier {
namespace {

class Selector {
 public:
  Selector(PatternStepper& patterns, const TensorMaker& make, const SelectOptions& options)
      : patterns_(patterns), make_(make), options_(options) {}

  // The selected part of `node`, which is at `depth`; nullopt if nothing is selected. The walk goes
  // on below nodes that are left out, because patterns may match there.
  Result<std::optional<Value>> build(const NodeRef& node, std::size_t depth, bool is_selected,
                                     bool is_left_out) {
    is_left_out = is_left_out || (options_.leave_out && options_.leave_out(node));
    is_selected = is_selected && !is_left_out;
    if (!is_container(node.kind())) {
      if (!is_selected) return std::optional<Value>();
      auto value = build_leaf(node);
      if (!value) return propagate(value);
      return std::optional<Value>(std::move(*value));
    }
    Value value = to_value_alone(node);
    bool kept = is_selected;
    // Omitted elements, held until it is known whether any element of their list is kept.
    const bool positional = node.kind() == Kind::kList || node.kind() == Kind::kTuple;
    std::vector<std::optional<Value>> elements;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      const auto verdict = patterns_.step(depth + 1, node, node.child(i));
      Result<std::optional<Value>> child;
      if (verdict != PatternStepper::Verdict::kLeftOut) {
        child = build(node.child(i), depth + 1, PatternStepper::is_selected(verdict), is_left_out);
      }
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
      value.add(elements[i]              ? std::move(*elements[i])
                : options_.keep_elements ? to_value(node.child(i))
                                         : Value::dict());
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

  PatternStepper& patterns_;
  const TensorMaker& make_;
  const SelectOptions& options_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const Tensor>> tensors_;
};

}  // namespace

Result<Value> select(const NodeRef& root, const KeyPath& path, std::span<const Pattern> patterns,
                     const TensorMaker& make, const SelectOptions& options) {
  auto node = root.at(path);
  if (!node) return propagate(node);
  PatternStepper stepper(patterns);
  auto verdict = stepper.start();
  NodeRef parent = root;
  for (std::size_t depth = 0; depth < path.size(); ++depth) {
    const NodeRef child = *parent.find(path[depth].view());
    verdict = stepper.step(depth + 1, parent, child);
    parent = child;
  }
  auto built = Selector(stepper, make, options)
                   .build(*node, path.size(), PatternStepper::is_selected(verdict), false);
  if (!built) return propagate(built);
  if (auto ok = stepper.check_all_matched(); !ok) return propagate(ok);
  if (!*built) {
    return fail(ErrorCode::kNotFound,
                options.leave_out ? "everything that is selected is left out"
                                  : "the patterns select nothing below this root",
                Error::kNoOffset, path.to_string());
  }
  return std::move(**built);
}

}  // namespace espalier
