#include "espalier/map/mapped_trees.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>

#include "espalier/base/ascii.h"
#include "espalier/base/counted.h"
#include "espalier/base/json_text_writer.h"
#include "espalier/base/json_tree.h"
#include "espalier/base/real_text.h"
#include "espalier/key_path.h"
#include "espalier/limits.h"
#include "espalier/map/adapter.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/leaves.h"
#include "espalier/map/map_error.h"
#include "espalier/map/map_words.h"

namespace espalier {
namespace {

// "lora" and "a.b" of "lora::a.b".
struct SplitName {
  std::string label;
  std::string name;
};

SplitName split_label(std::string_view name) {
  const std::size_t at = name.find("::");
  if (at == std::string_view::npos) return {{}, std::string(name)};
  return {std::string(name.substr(0, at)), std::string(name.substr(at + 2))};
}

// Of a dict whose keys a dotted name says.
bool has_text_keys(const NodeRef& node) {
  if (node.kind() != Kind::kDict) return false;
  for (std::uint32_t i = 0; i < node.size(); ++i) {
    if (node.key(i).is_int) return false;
  }
  return true;
}

bool has_children(const NodeRef& node) {
  return is_container(node.kind()) && node.kind() != Kind::kSet && node.size() > 0;
}

// Numbers, texts and null.
bool is_same_scalar(const NodeRef& a, const NodeRef& b) {
  if (a.kind() != b.kind() || is_container(a.kind())) return false;
  const ByteSpan bytes = a.as_bytes().value_or(ByteSpan());
  const ByteSpan others = b.as_bytes().value_or(ByteSpan());
  // By their bits: 0 is not -0, and a NaN is itself.
  const auto bits = [](const NodeRef& node) {
    Complex number;
    if (const auto real = node.as_double()) number = *real;
    if (const auto both = node.as_complex()) number = *both;
    std::array<std::uint64_t, 2> found = {};
    static_assert(sizeof found == sizeof number);
    std::memcpy(found.data(), &number, sizeof number);
    return found;
  };
  return a.as_bool() == b.as_bool() && a.as_int64() == b.as_int64() && bits(a) == bits(b) &&
         a.as_string() == b.as_string() && a.as_bigint() == b.as_bigint() &&
         std::equal(bytes.begin(), bytes.end(), others.begin(), others.end());
}

// The first of the parts of a name, which is taken from it.
std::string_view take_part(std::string_view& name, char separator) {
  const std::size_t end = std::min(name.find(separator), name.size());
  const std::string_view part = name.substr(0, end);
  name.remove_prefix(std::min(end + 1, name.size()));
  return part;
}

std::optional<std::size_t> number_of(std::string_view digits) {
  constexpr std::size_t kMostDigits = 9;
  if (digits.empty() || digits.size() > kMostDigits) return std::nullopt;
  std::size_t number = 0;
  for (const char c : digits) {
    if (!is_digit(c)) return std::nullopt;
    number = number * 10 + static_cast<std::size_t>(c - '0');
  }
  return number;
}

std::optional<std::string> text_or_number(const NodeRef& node) {
  if (const auto number = node.as_int64()) return std::to_string(*number);
  if (const auto text = node.as_string()) return std::string(*text);
  return std::nullopt;
}

// Where state lies along the parameters when it is read, and when it is written: of the first pair.
// The sides of a pair of `along` that are read and written.
std::pair<std::string, std::string> along_of(const KeyMap& map, const LiftOptions& options,
                                             std::size_t number) {
  std::string left;
  std::string right;
  if (!options.along.empty()) {
    const std::string& text = options.along[number];
    const std::size_t arrow = text.find(kAlongArrow);
    left = text.substr(0, arrow);
    right = arrow == std::string::npos ? left : text.substr(arrow + kAlongArrow.size());
  } else {
    left = map.parts().along.left[number];
    right = map.parts().along.right[number];
  }
  if (options.plan.reverse) std::swap(left, right);
  return {std::move(left), std::move(right)};
}

// "optimizer." of "optimizer.state.{param#}.exp_avg".
std::string optimizer_of(const std::string& along, char separator) {
  const std::size_t at = along.find("{param");
  const std::size_t end = at == std::string::npos || at < 2 ? at : along.rfind(separator, at - 2);
  return end == std::string::npos ? std::string() : along.substr(0, end + 1);
}

// Nested dicts while they are filled: unlike Value::set(), each step takes logarithmic time.
class Nest {
 public:
  // False if the place is taken, or on the way there is a value.
  bool put(const KeyPath& path, Value value) {
    Nest* at = this;
    for (const Key& key : path) {
      if (at->value_) return false;
      at->is_dict_ = true;
      const auto [found, is_new] = at->numbers_.emplace(key, at->children_.size());
      if (is_new) at->children_.emplace_back(key, Nest());
      at = &at->children_[found->second].second;
    }
    if (at->value_ || at->is_dict_) return false;
    at->value_ = std::move(value);
    return true;
  }

  // Recurses as deep as the longest name.
  Value take() && {
    if (value_) return std::move(*value_);
    std::vector<Value::Item> items;
    items.reserve(children_.size());
    for (auto& [key, child] : children_) {
      items.emplace_back(std::move(key), std::move(child).take());
    }
    return Value::dict(std::move(items));
  }

 private:
  std::optional<Value> value_;
  bool is_dict_ = false;
  std::map<Key, std::size_t> numbers_;
  std::vector<std::pair<Key, Nest>> children_;
};

Error template_error(std::string_view message) {
  return {ErrorCode::kMapTemplate, Error::kNoOffset, {}, message};
}

}  // namespace

// The key path of a name that the map writes.
Result<KeyPath> MappedTrees::path_of(const std::string& name, bool is_nested) const {
  if (side_.names == MapSide::Names::kPaths) return KeyPath::parse(name);
  if (!is_nested) return KeyPath{Key(name)};
  KeyPath path;
  std::string_view rest = name;
  for (;;) {
    const std::size_t end = rest.find('.');
    path.push_back(Key(rest.substr(0, end)));
    if (end == std::string_view::npos) return path;
    rest.remove_prefix(end + 1);
  }
}

bool MappedTrees::is_nested() const {
  if (side_.tree != MapSide::Tree::kLikeInput) return side_.tree == MapSide::Tree::kNested;
  return is_input_nested();
}

bool MappedTrees::is_input_nested() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) {
    const NodeRef state = input.checkpoint.state();
    for (std::uint32_t i = 0; i < state.size(); ++i) {
      if (has_children(state.child(i))) return true;
    }
    return false;
  });
}

bool MappedTrees::has_flat_params() const {
  if (side_.names == MapSide::Names::kPaths) return false;
  if (side_.tree != MapSide::Tree::kLikeInput) return side_.tree == MapSide::Tree::kFlat;
  if (inputs_.empty()) return false;
  std::optional<NodeRef> node = inputs_.front().checkpoint.state();
  for (std::string_view rest = at_; !rest.empty() && node;) {
    node = node->find(KeyView::of(take_part(rest, '.')));
  }
  if (!node || !has_keys(node->kind())) return false;
  for (std::uint32_t i = 0; i < node->size(); ++i) {
    const KeyView key = node->key(i);
    const bool is_state = at_.empty() && !key.is_int && key.text == state_key_;
    if (!is_state && has_children(node->child(i))) return false;
  }
  return true;
}

// Makes the values of targets, and puts them into trees.
class MappedTrees::Builder {
 public:
  Builder(const MappedTrees& trees, const Makers& makers)
      : trees_(trees),
        plan_(*trees.plan_),
        makers_(makers),
        has_flat_params_(trees.has_flat_params()) {}

  Result<std::vector<Output>> make() {
    if (trees_.like_) return make_like();
    const bool is_nested = trees_.is_nested();
    const bool is_input_nested = trees_.is_input_nested();
    // Beside parameters that stand somewhere, all else stays where it was.
    const bool stands_apart = !trees_.at_.empty() || !plan_.param_groups().empty();
    // A key is no path, and a path no key.
    const bool has_paths = trees_.side_.names == MapSide::Names::kPaths ||
                           (!is_input_nested && trees_.read_side_.names == MapSide::Names::kPaths);
    const bool keeps_places = has_paths || (is_input_nested && (stands_apart || is_nested));
    find_positions();
    const bool has_positions = std::any_of(positions_.begin(), positions_.end(),
                                           [](std::uint32_t positions) { return positions > 0; });
    kept_.assign(plan_.leaves().size(), kTaken);
    std::map<std::string, std::vector<Placed>> placed;
    if (plan_.targets().empty()) placed[""];
    for (std::size_t i = 0; i < plan_.targets().size(); ++i) {
      const MapTarget& made = plan_.targets()[i];
      const auto own = own_place(made);
      // Where names do not say all of the tree, what keeps its name keeps its place, too.
      const bool stays = made.rule == MapTarget::kKept || has_positions;
      if (own && ((keeps_places && stays) || positions_[*own] > 0 || is_root(*own))) {
        kept_[*own] = i;
        continue;
      }
      if (auto ok = place(i, is_nested, placed); !ok) return propagate(ok);
    }
    std::vector<Output> outputs;
    outputs.reserve(placed.size());
    for (auto& [label, values] : placed) {
      auto state = nested(values);
      if (!state) return propagate(state);
      outputs.push_back({label, std::move(*state)});
      count_unlisted(values, outputs.back());
    }
    return with_kept(std::move(outputs), placed, is_nested || stands_apart || has_paths);
  }

 private:
  static constexpr std::size_t kTaken = ~std::size_t{0};

  // A value that stands under a name of its own, and the only leaf that it is made of.
  struct Placed {
    const std::string* name;
    KeyPath path;
    Value value;
    std::optional<std::uint32_t> leaf;
  };

  static tl::unexpected<Error> collision(const std::string& name) {
    return fail(ErrorCode::kNameCollision,
                in_quotes(name) +
                    " would be both a value and a part of another name; write a flat "
                    "state, with \"tree\": \"flat\" for this side");
  }

  // The leaf whose name, and so whose place, a target has.
  std::optional<std::uint32_t> own_place(const MapTarget& made) const {
    if (!made.tied.empty()) return std::nullopt;
    for (const std::uint32_t leaf : made.sources()) {
      if (plan_.leaves()[leaf].name == made.name) return leaf;
    }
    return std::nullopt;
  }

  // A state that is one value.
  bool is_root(std::uint32_t leaf) const {
    return !has_children(trees_.inputs_[trees_.inputs_of_[leaf]].checkpoint.state());
  }

  bool is_unwrapped_key(const KeyView& key) const { return is_unwrapped(trees_.read_side_, key); }

  // What a state is without the keys that are left out.
  NodeRef unwrapped_root(NodeRef node) const {
    while (node.kind() == Kind::kDict && node.size() == 1 && is_unwrapped_key(node.key(0))) {
      node = node.child(0);
    }
    return node;
  }

  Result<void> place(std::size_t number, bool is_nested,
                     std::map<std::string, std::vector<Placed>>& placed) {
    const MapTarget& made = plan_.targets()[number];
    auto value = value_of(number);
    if (!value) return propagate(value);
    const auto sources = made.sources();
    const auto names = names_of(made);
    for (std::size_t n = 0; n < names.size(); ++n) {
      const SplitName split = split_label(*names[n]);
      auto path = has_flat_params_ && n < made.paths.size() ? Result<KeyPath>(made.paths[n])
                                                            : trees_.path_of(split.name, is_nested);
      if (!path) return propagate(path);
      if (path->size() > Limits{}.depth) {
        return fail(ErrorCode::kLimitExceeded,
                    in_quotes(*names[n]) + " has more than " + counted(Limits{}.depth, "part"));
      }
      placed[split.label].push_back(
          {names[n], std::move(*path), *value,
           sources.size() == 1 ? std::optional(sources.front()) : std::nullopt});
    }
    return {};
  }

  static Result<Value> nested(const std::vector<Placed>& values) {
    Nest nest;
    for (const Placed& each : values) {
      if (!nest.put(each.path, each.value)) return collision(*each.name);
    }
    return std::move(nest).take();
  }

  // Counts the values that stood in a list or under an integer key, and do not any more.
  void count_unlisted(const std::vector<Placed>& values, Output& output) const {
    output.unlisted = 0;
    for (const Placed& each : values) {
      if (!each.leaf) continue;
      const auto positions = std::count_if(each.path.begin(), each.path.end(),
                                           [](const Key& key) { return key.view().is_int; });
      if (static_cast<std::uint32_t>(positions) >= positions_[*each.leaf]) continue;
      if (output.unlisted++ == 0) output.first_unlisted = each.path.to_string();
    }
  }

  // How many lists, tuples and integer keys lead to each leaf.
  void find_positions() {
    positions_.reserve(plan_.leaves().size());
    for (const Input& input : trees_.inputs_) {
      const NodeRef state = input.checkpoint.state();
      if (is_container(state.kind()) && state.size() == 0) continue;  // as named_leaves() has it
      find_positions(state, 0);
    }
  }

  // Recurses as deep as the tree.
  void find_positions(const NodeRef& node, std::uint32_t positions) {
    if (!has_children(node)) {
      positions_.push_back(positions);
      return;
    }
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      find_positions(node.child(i), positions + (node.key(i).is_int ? 1 : 0));
    }
  }

  static std::vector<const std::string*> names_of(const MapTarget& made) {
    std::vector<const std::string*> names{&made.name};
    for (const std::string& tied : made.tied) names.push_back(&tied);
    return names;
  }

  Result<Value> value_of(std::size_t number) {
    const MapTarget& made = plan_.targets()[number];
    auto names = axis_names_of(made);
    if (made.source != MapPiece::kZeros) {
      return made.is_copy ? with_names(loaded(made.source), names) : renamed(made.source, names);
    }
    // Targets that are made alike of tied sources stay tied.
    std::string likeness = likeness_of(made);
    const auto found = likeness.empty() ? made_.end() : made_.find(likeness);
    if (found != made_.end()) return found->second;
    Tensor tensor;
    tensor.dtype = made.dtype;
    tensor.shape = made.shape;
    tensor.axis_names = std::move(names);
    for (const MapPiece& piece : made.pieces) {
      if (piece.source == MapPiece::kZeros || made.dtype != DType::kOpaque) continue;
      const MapLeaf& leaf = plan_.leaves()[piece.source];
      tensor.block_name = leaf.block_name;
      tensor.block_elements = leaf.block_elements;
      tensor.block_bytes = leaf.block_bytes;
      break;
    }
    tensor.data = makers_.produce(number);
    Value value = Value::tensor(std::move(tensor));
    if (!likeness.empty()) made_.emplace(std::move(likeness), value);
    return value;
  }

  Result<Value> loaded(std::uint32_t leaf) const {
    return makers_.load(trees_.inputs_of_[leaf], trees_.nodes_[leaf]);
  }

  // Empty if the map names no axes, or not all of them.
  std::vector<std::string> axis_names_of(const MapTarget& made) const {
    const bool is_named = trees_.side_.axis_names && !made.shape.empty() &&
                          made.words.size() == made.shape.size() &&
                          std::none_of(made.words.begin(), made.words.end(),
                                       [](const std::string& word) { return word.empty(); });
    return is_named ? made.words : std::vector<std::string>();
  }

  static Result<Value> with_names(Result<Value> value, const std::vector<std::string>& names) {
    if (!value || names.empty()) return value;
    Tensor named = *value->as_tensor();
    named.axis_names = names;
    return Value::tensor(std::move(named));
  }

  // Tied leaves give one value, which ties them again.
  Result<Value> renamed(std::uint32_t leaf, const std::vector<std::string>& names) {
    const auto tensor = trees_.nodes_[leaf].tensor();
    if (!tensor) return loaded(leaf);
    const std::pair key(Identity(trees_.inputs_of_[leaf], tensor->number()), names);
    const auto found = renamed_.find(key);
    if (found != renamed_.end()) return found->second;
    auto value = with_names(loaded(leaf), names);
    if (value) renamed_.emplace(key, *value);
    return value;
  }

  // A text that is equal for targets with the same bytes; empty if their sources are not tied.
  std::string likeness_of(const MapTarget& made) {
    if (tied_.empty()) find_tied();
    std::string text = std::to_string(static_cast<int>(made.dtype)) + printed(made.shape);
    if (made.pieces.empty()) return {};
    for (const MapPiece& piece : made.pieces) {
      text += '|';
      if (piece.source != MapPiece::kZeros) {
        const auto& identity = tied_[piece.source];
        if (!identity) return {};
        text += std::to_string(identity->first) + ':' + std::to_string(identity->second);
      }
      text += '@' + std::to_string(piece.from) + '>' + std::to_string(piece.to);
      for (const MapLoop& loop : piece.loops) {
        text += ',' + std::to_string(loop.count) + ' ' + std::to_string(loop.from) + ' ' +
                std::to_string(loop.to);
      }
      for (const MapStep& step : piece.steps) {
        text += ';' + std::to_string(static_cast<int>(step.kind)) + ' ' + print_real(step.value);
      }
    }
    return text;
  }

  // The tensors that several leaves share.
  void find_tied() {
    std::map<Identity, std::uint32_t> counts;
    tied_.resize(plan_.leaves().size());
    for (const bool counts_alone : {true, false}) {
      for (std::size_t i = 0; i < tied_.size(); ++i) {
        const auto tensor = trees_.nodes_[i].tensor();
        if (!tensor) continue;
        const Identity identity(trees_.inputs_of_[i], tensor->number());
        if (counts_alone) {
          ++counts[identity];
        } else if (counts[identity] > 1) {
          tied_[i] = identity;
        }
      }
    }
  }

  // What the map keeps, in the containers where it was. In a flat state, only what a name cannot
  // say is a container: lists, tuples, and dicts with integer keys.
  Result<std::vector<Output>> with_kept(std::vector<Output> outputs,
                                        std::map<std::string, std::vector<Placed>>& placed,
                                        bool is_nested) {
    std::size_t leaf = 0;
    for (const Input& input : trees_.inputs_) {
      const NodeRef state = input.checkpoint.state();
      if (is_container(state.kind()) && state.size() == 0) continue;
      std::vector<Value::Item> containers;
      std::optional<Value> tree;
      if (is_nested || !has_text_keys(unwrapped_root(state))) {
        auto value = kept_below(state, leaf);
        if (!value) return propagate(value);
        tree = std::move(*value);
      } else if (auto ok = kept_containers(state, {}, leaf, containers); !ok) {
        return propagate(ok);
      }
      if (!tree && containers.empty()) continue;
      auto output = std::find_if(outputs.begin(), outputs.end(),
                                 [&](const Output& each) { return each.label == input.label; });
      if (output == outputs.end()) {
        output = outputs.insert(outputs.end(), Output{input.label, Value::dict()});
      }
      for (auto& [key, container] : containers) {
        if (output->state.find(key) != nullptr) {
          return fail(ErrorCode::kNameCollision,
                      in_quotes(key.view().text) +
                          " would be both what a rule makes and a container that is kept; give "
                          "one of them another name, or drop it with a rule");
        }
        output->state.add(std::move(key), std::move(container));
      }
      if (!tree) continue;
      // What was there comes first.
      auto& values = placed[output->label];
      output->state = std::move(*tree);
      for (Placed& each : values) {
        if (auto ok = put_beside(output->state, each); !ok) return propagate(ok);
      }
      count_unlisted(values, *output);
      values.clear();
    }
    return outputs;
  }

  // Puts a value into a tree that holds others already. A number is a position where there is a
  // list, and an integer where the keys are integers.
  Result<void> put_beside(Value& state, Placed& placed) const {
    const bool is_dotted = trees_.side_.names == MapSide::Names::kDotted;
    KeyPath path;
    Value* at = &state;
    for (const Key& key : placed.path) {
      Key own = key;
      const bool is_last = path.size() + 1 == placed.path.size();
      Value* child = nullptr;
      const auto number = read_int_key(key.view().is_int ? std::string_view() : key.view().text);
      if (has_keys(at->kind())) {
        child = at->find(own);
        if (child == nullptr && number && is_dotted) {
          child = at->find(Key(*number));
          const bool has_numbers = !at->children().empty() && (*at->begin()).key.is_int;
          if (child != nullptr || has_numbers) own = Key(*number);
        }
        if (child == nullptr) {
          at->add(own, is_last ? std::move(placed.value) : Value::dict());
          child = is_last ? nullptr : at->find(own);
        } else if (is_last) {
          return collision(*placed.name);
        }
      } else {
        const auto children = at->children();
        if (!number || static_cast<std::uint64_t>(*number) >= children.size()) {
          return collision(*placed.name);
        }
        own = Key(*number);
        child = &children[static_cast<std::size_t>(*number)];
        // Positions that are taken are null.
        const bool is_free = child->kind() == Kind::kNull;
        if (is_last && !is_free) return collision(*placed.name);
        if (is_free) *child = is_last ? std::move(placed.value) : Value::dict();
      }
      path.push_back(std::move(own));
      at = child;
    }
    placed.path = std::move(path);
    return {};
  }

  // The containers of a flat state, under their names. Recurses as deep as the tree.
  Result<void> kept_containers(const NodeRef& node, const std::string& name, std::size_t& leaf,
                               std::vector<Value::Item>& containers) {
    if (has_children(node) && has_text_keys(node)) {
      for (std::uint32_t i = 0; i < node.size(); ++i) {
        std::string longer = name;
        if (!is_unwrapped_key(node.key(i))) {
          if (!longer.empty()) longer += trees_.side_.separator();
          longer += unwrapped(trees_.read_side_, node.key(i).text);
        }
        if (auto ok = kept_containers(node.child(i), longer, leaf, containers); !ok) return ok;
      }
      return {};
    }
    auto value = kept_below(node, leaf);
    if (!value) return propagate(value);
    if (*value) containers.emplace_back(Key(name), std::move(**value));
    return {};
  }

  // Leaves are numbered as named_leaves() meets them. Recurses as deep as the tree.
  Result<std::optional<Value>> kept_below(const NodeRef& node, std::size_t& leaf) {
    if (!has_children(node)) {
      const std::size_t target = kept_[leaf++];
      if (target == kTaken) return std::optional<Value>();
      auto value = value_of(target);
      if (!value) return propagate(value);
      return std::optional(std::move(*value));
    }
    std::vector<std::optional<Value>> children;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      auto child = kept_below(node.child(i), leaf);
      if (!child) return child;
      children.push_back(std::move(*child));
    }
    if (std::none_of(children.begin(), children.end(), [](const auto& each) { return !!each; })) {
      return std::optional<Value>();
    }
    if (node.kind() != Kind::kDict || trees_.read_side_.unwrap.empty()) {
      return std::optional(filled(node, std::move(children)));
    }
    return unwrapped_dict(node, std::move(children));
  }

  // A dict whose keys are those of names: what stands under a key that is left out comes up.
  Result<std::optional<Value>> unwrapped_dict(const NodeRef& node,
                                              std::vector<std::optional<Value>> children) const {
    const auto count = std::count_if(children.begin(), children.end(),
                                     [](const auto& each) { return each.has_value(); });
    Value value = Value::dict();
    if (const auto label = node.label()) value = std::move(value).labelled(std::string(*label));
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      if (!children[i]) continue;
      const KeyView key = node.key(i);
      Value part = std::move(*children[i]);
      if (!is_unwrapped_key(key)) {
        Key own = key.is_int ? Key(key) : Key(unwrapped(trees_.read_side_, key.text));
        if (value.find(own) == nullptr) {
          value.add(std::move(own), std::move(part));
          continue;
        }
        part = Value::dict({{std::move(own), std::move(part)}});
      } else if (count == 1) {
        return std::optional(std::move(part));
      }
      if (auto ok = value.merge(std::move(part)); !ok) return propagate(ok);
    }
    return std::optional(std::move(value));
  }

  // A container like `node`. Positions that are taken become null, so that the others stay.
  static Value filled(const NodeRef& node, std::vector<std::optional<Value>> children) {
    Value value = Value::container(node.kind());
    const bool is_keyed = has_keys(node.kind());
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      if (is_keyed) {
        if (children[i]) value.add(Key(node.key(i)), std::move(*children[i]));
      } else {
        value.add(children[i] ? std::move(*children[i]) : Value::null());
      }
    }
    if (const auto label = node.label()) return std::move(value).labelled(std::string(*label));
    return value;
  }

  // The tree of the template with the tensors that the map makes.
  Result<std::vector<Output>> make_like() {
    std::unordered_map<std::string_view, std::uint32_t> targets;
    for (std::uint32_t i = 0; i < plan_.targets().size(); ++i) {
      for (const std::string* name : names_of(plan_.targets()[i])) targets.emplace(*name, i);
    }
    const auto leaves = named_leaves(trees_.like_->state(), trees_.side_, {});
    std::size_t leaf = 0;
    auto value = like_below(trees_.like_->state(), leaves, targets, leaf);
    if (!value) return propagate(value);
    std::vector<Output> outputs;
    outputs.push_back({{}, std::move(*value)});
    return outputs;
  }

  Result<Value> like_below(const NodeRef& node, const std::vector<NamedNode>& leaves,
                           const std::unordered_map<std::string_view, std::uint32_t>& targets,
                           std::size_t& leaf) {
    if (!has_children(node)) {
      if (leaves.empty()) return makers_.load(kLike, node);
      const auto found = targets.find(leaves[leaf++].name);
      // Scalars that the map does not make are the template's.
      return found == targets.end() ? makers_.load(kLike, node) : value_of(found->second);
    }
    std::vector<std::optional<Value>> children;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      auto child = like_below(node.child(i), leaves, targets, leaf);
      if (!child) return child;
      children.emplace_back(std::move(*child));
    }
    return filled(node, std::move(children));
  }

  using Identity = std::pair<std::size_t, std::uint32_t>;

  const MappedTrees& trees_;
  const MapPlan& plan_;
  const Makers& makers_;
  const bool has_flat_params_;  // found once: it looks at all children of a node
  std::map<std::pair<Identity, std::vector<std::string>>, Value> renamed_;
  std::map<std::string, Value> made_;
  std::vector<std::optional<Identity>> tied_;  // by leaf
  std::vector<std::size_t> kept_;              // targets by leaf
  std::vector<std::uint32_t> positions_;       // by leaf: see find_positions()
};

// Whether what the plan makes is what a template has.
Result<void> MappedTrees::check_like() const {
  const MapPlan& plan = *plan_;
  std::map<std::string, NodeRef> wanted;
  for (NamedNode& leaf : named_leaves(like_->state(), side_, {})) {
    if (!wanted.emplace(leaf.name, leaf.node).second) {
      return tl::unexpected<Error>(
          template_error("the template has two values called " + in_quotes(leaf.name)));
    }
  }
  std::vector<std::string_view> unexpected;
  for (const MapTarget& made : plan.targets()) {
    std::vector<std::string_view> names{made.name};
    names.insert(names.end(), made.tied.begin(), made.tied.end());
    for (const std::string_view name : names) {
      if (is_group_list(name)) continue;
      const auto found = wanted.find(std::string(name));
      if (found == wanted.end()) {
        unexpected.push_back(name);
        continue;
      }
      const auto tensor = found->second.tensor();
      const bool is_tensor =
          made.source == MapPiece::kZeros || plan.leaves()[made.source].is_tensor;
      wanted.erase(found);
      if (!tensor || !is_tensor) {
        if (tensor.has_value() == is_tensor) continue;
        return tl::unexpected<Error>(template_error(in_quotes(name) + " is " +
                                                    (is_tensor ? "a tensor" : "no tensor") +
                                                    ", unlike in the template"));
      }
      const auto wanted_shape = tensor->shape();
      if (tensor->dtype() == made.dtype && std::equal(wanted_shape.begin(), wanted_shape.end(),
                                                      made.shape.begin(), made.shape.end())) {
        continue;
      }
      return tl::unexpected<Error>(template_error(
          in_quotes(name) + " would be " + std::string(dtype_name(made.dtype)) + ' ' +
          printed(made.shape) + ", and the template has " +
          std::string(dtype_name(tensor->dtype())) + ' ' + printed(wanted_shape) +
          (tensor->dtype() == made.dtype ? "" : "; convert it with \"dtypes\" or 'as'")));
    }
  }
  if (!unexpected.empty()) {
    return tl::unexpected<Error>(template_error(
        "the map makes " + in_quotes(unexpected.front()) +
        (unexpected.size() > 1 ? " and " + std::to_string(unexpected.size() - 1) + " more" : "") +
        ", and the template has nothing of that name; drop it with a rule"));
  }
  std::string missing;
  std::size_t count = 0;
  for (const auto& [name, node] : wanted) {
    if (!node.tensor()) continue;
    if (count++ == 0) missing = name;
  }
  if (count == 0) return {};
  return tl::unexpected<Error>(template_error(
      "the template has " + in_quotes(missing) +
      (count > 1 ? " and " + std::to_string(count - 1) + " more" : "") + ", and no rule makes it"));
}

Result<MappedTrees> MappedTrees::make(const KeyMap& map, std::vector<Input> inputs,
                                      const LiftOptions& options, std::optional<Checkpoint> like) {
  if (auto ok = check_given_words(map, options); !ok) return propagate(ok);
  MappedTrees trees;
  const bool reverse = options.plan.reverse;
  trees.read_side_ = map.parts().side(!reverse);
  trees.side_ = map.parts().side(reverse);
  trees.map_name_ = map.name();
  trees.map_hash_ = to_hex(map.hash());
  trees.reverse_ = reverse;
  trees.sizes_ = options.plan.sizes;
  trees.like_ = std::move(like);
  trees.at_ = options.at;
  trees.inputs_ = std::move(inputs);
  std::vector<MapLeaf> leaves;
  for (std::size_t i = 0; i < trees.inputs_.size(); ++i) {
    const Input& input = trees.inputs_[i];
    for (const NamedNode& named :
         named_leaves(input.checkpoint.state(), trees.read_side_, input.label)) {
      leaves.push_back(to_leaf(named));
      trees.nodes_.push_back(named.node);
      trees.inputs_of_.push_back(i);
    }
  }
  LiftOptions with_params = options;
  if (trees.like_) {
    for (NamedNode& leaf : named_leaves(trees.like_->state(), trees.side_, {})) {
      with_params.made_order.push_back(std::move(leaf.name));
    }
  }
  if (auto ok = trees.find_params(map, leaves, with_params); !ok) return propagate(ok);
  auto plan = plan_with_state(map, std::move(leaves), with_params);
  if (!plan) return propagate(plan);
  trees.plan_ = std::make_shared<const MapPlan>(std::move(*plan));
  if (trees.like_) {
    if (auto ok = trees.check_like(); !ok) return propagate(ok);
  }
  return trees;
}

bool MappedTrees::is_group_list(std::string_view name) const {
  const char separator = side_.separator();
  if (plan_->param_groups().empty() || !name.starts_with(param_groups_ + separator)) return false;
  name.remove_prefix(param_groups_.size() + 1);
  take_part(name, separator);
  const std::string_view word = take_part(name, separator);
  return word == "params" || word == "param_names";
}

Result<void> MappedTrees::find_params(const KeyMap& map, const std::vector<MapLeaf>& leaves,
                                      LiftOptions& options) {
  const char separator = map.parts().side(!reverse_).separator();
  const MapAlong& own = map.parts().along;
  const std::size_t alongs =
      options.along.empty() ? std::min(own.left.size(), own.right.size()) : options.along.size();
  if (alongs == 0) return {};
  const auto [read, written] = along_of(map, options, 0);
  const std::size_t at = read.find("{param");
  if (at == std::string::npos || at == 0) return {};
  writes_numbers_ = written.find("{param#}") != std::string::npos;
  const std::string base = optimizer_of(read, separator);
  for (std::size_t i = 1; i < alongs; ++i) {
    const auto [other, other_written] = along_of(map, options, i);
    const auto has_numbers = [](const std::string& text) {
      return text.find("{param#}") != std::string::npos;
    };
    const bool is_numbered = has_numbers(read) || has_numbers(written) || has_numbers(other) ||
                             has_numbers(other_written);
    if (!is_numbered || optimizer_of(other, separator) == base) continue;
    // The numbers of each begin at 0: one would take the other's names.
    return fail(ErrorCode::kMapInvalid,
                "\"along\": " + in_quotes(read) + " and " + in_quotes(other) +
                    " are of two optimizers, each with numbers of its own; map the model with one "
                    "of them at a time (espalier extract), and merge the results");
  }
  param_groups_ = base + "param_groups";
  state_key_ = read.substr(0, read.find(separator));

  struct Group {
    std::map<std::size_t, std::string> params;
    std::map<std::size_t, std::string> names;
  };
  std::map<std::size_t, Group> groups;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    std::string_view rest = leaves[i].name;
    if (!rest.starts_with(param_groups_ + separator)) continue;
    rest.remove_prefix(param_groups_.size() + 1);
    const auto group = number_of(take_part(rest, separator));
    const std::string_view word = take_part(rest, separator);
    const auto position = number_of(rest);
    if (!group || !position) continue;
    const auto text = text_or_number(nodes_[i]);
    if (!text) continue;
    if (word == "params") groups[*group].params[*position] = *text;
    if (word == "param_names") groups[*group].names[*position] = *text;
  }
  // Numbers of a stranger's groups say how many lists are made.
  if (!groups.empty() && groups.rbegin()->first >= groups.size()) {
    return fail(ErrorCode::kMapShape, "the groups in " + in_quotes(param_groups_) +
                                          " are not numbered from 0 on without a gap");
  }
  const bool is_numbered = read.find("{param#}") != std::string::npos;
  const MapSide& read_side = map.parts().side(!reverse_);
  std::vector<std::string> order = options.param_order;
  std::size_t count = 0;
  for (const auto& [number, group] : groups) count += group.params.size();
  if (!order.empty() && !groups.empty() && order.size() != count) {
    return fail(ErrorCode::kMapUndetermined, "the order has " + counted(order.size(), "name") +
                                                 ", and the optimizer " +
                                                 counted(count, "parameter"));
  }
  // Groups part the parameters of a model, so then its order says nothing.
  if (is_numbered && order.empty() && groups.size() == 1) {
    const std::string prefix = options.at.empty() ? std::string() : options.at + separator;
    for (const MapLeaf& leaf : leaves) {
      const bool is_state = !base.empty() ? leaf.name.starts_with(base) : options.at.empty();
      if (leaf.is_tensor && !is_state && leaf.name.starts_with(prefix)) {
        order.push_back(leaf.name.substr(prefix.size()));
      }
    }
    if (order.size() != count) order.clear();
  }
  for (const auto& [number, group] : groups) {
    for (const auto& [position, param] : group.params) {
      const auto named = group.names.find(position);
      std::string name = param;
      if (named != group.names.end()) {
        name = unwrapped(read_side, named->second);
      } else if (!is_numbered) {
        name = unwrapped(read_side, param);
      } else {
        const auto index = number_of(param);
        if (!index || *index >= order.size()) continue;  // the plan says that it has no name
        name = order[*index];
      }
      options.params.push_back({param, std::move(name), number});
    }
  }
  // A file that holds the state alone.
  if (is_numbered && groups.empty()) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      options.params.push_back({std::to_string(i), order[i], 0});
    }
  }
  return {};
}

Result<void> MappedTrees::renumber(std::vector<Output>& outputs) const {
  if (plan_->param_groups().empty()) return {};
  const auto place = path_of(param_groups_, true);
  if (!place) return propagate(place);
  std::int64_t number = 0;
  for (std::size_t g = 0; g < plan_->param_groups().size(); ++g) {
    std::vector<Value> params;
    std::vector<Value> names;
    for (const std::string& name : plan_->param_groups()[g]) {
      params.push_back(writes_numbers_ ? Value::integer(number) : Value::string(name));
      names.push_back(Value::string(name));
      ++number;
    }
    // A list of optimizers has positions.
    KeyPath group;
    for (const Key& key : *place) {
      const KeyView part = key.view();
      const auto position = part.is_int ? std::nullopt : number_of(part.text);
      group.push_back(position ? Key(static_cast<std::int64_t>(*position)) : key);
    }
    group.push_back(Key(static_cast<std::int64_t>(g)));
    for (Output& output : outputs) {
      if (!output.label.empty()) continue;
      const auto found = output.state.at(group);
      if (!found) {
        if (output.state.find(Key(param_groups_ + side_.separator() + std::to_string(g) +
                                  side_.separator() + "params" + side_.separator() + "0"))) {
          return fail(ErrorCode::kInvalidArgument,
                      "the groups of the optimizer have new parameters, which a flat state cannot "
                      "take; write a nested one: leave \"tree\" out of the map");
        }
        continue;  // left out
      }
      Value& options = **found;
      if (Value* const list = options.find(Key("params"))) *list = Value::list(params);
      if (Value* const list = options.find(Key("param_names"))) {
        *list = Value::list(names);
      } else if (writes_numbers_ && !like_) {
        // Without names, the numbers would be read in the order of a tree that may be another one
        // than that of the rules, and the state of one parameter would be taken for another's.
        options.add(Key("param_names"), Value::list(names));
      }
    }
  }
  return {};
}

Result<void> MappedTrees::check_scalars() const {
  for (const MapEqual& equal : plan_->equals()) {
    const MapLeaf& first = plan_->leaves()[equal.first];
    const MapLeaf& second = plan_->leaves()[equal.second];
    if (first.is_tensor && second.is_tensor) continue;
    if (is_same_scalar(nodes_[equal.first], nodes_[equal.second])) continue;
    return fail(ErrorCode::kMapData, "rule " + std::to_string(equal.rule + 1) + ": " +
                                         in_quotes(first.name) + " and " + in_quotes(second.name) +
                                         " belong to one parameter and are not the same");
  }
  return {};
}

Result<std::vector<MappedTrees::Output>> MappedTrees::outputs(const Makers& makers) const {
  auto made = Builder(*this, makers).make();
  if (!made) return made;
  if (auto ok = renumber(*made); !ok) return propagate(ok);
  return made;
}

Value MappedTrees::joined(std::vector<Output> outputs) {
  if (outputs.size() == 1 && outputs.front().label.empty()) return std::move(outputs.front().state);
  Value state = Value::dict();
  for (Output& output : outputs) state.add(output.label, std::move(output.state));
  return state;
}

Result<Value> MappedTrees::metadata(FunctionRef<Result<Value>(std::size_t input)> load) const {
  Value all = Value::dict();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    auto metadata = load(i);
    if (!metadata) return metadata;
    const auto keep_first = [](const Value&, const Value&, const std::function<std::string()>&) {
      return Result<Value::OnBoth>(Value::OnBoth::kKeep);
    };
    if (auto ok = all.merge(std::move(*metadata), keep_first); !ok) return propagate(ok);
  }
  std::string before;
  if (const Value* const old = all.find(Key("espalier.map"))) {
    const auto text = old->as_string();
    constexpr std::uint32_t kMaxDepth = 32;
    // What another map was, in the file that this one reads.
    if (text && JsonTree::parse(*text, kMaxDepth)) before = *text;
  }
  // A text, which other formats can hold, too.
  JsonTextWriter note;
  note.begin_object();
  note.member("name", map_name_);
  note.member("hash", map_hash_);
  note.member("reverse", reverse_);
  note.key("sizes");
  note.begin_object();
  for (const auto& [word, size] : sizes_) note.member(word, size);
  note.end_object();
  if (plan_->adapter()) {
    note.key("lora");
    note.raw(adapter_config(*plan_->adapter()));
  }
  if (!before.empty()) {
    note.key("before");
    note.raw(before);
  }
  note.end_object();
  if (auto ok = all.set(KeyPath{"espalier.map"}, Value::string(std::move(note).take())); !ok)
    return propagate(ok);
  return all;
}

}  // namespace espalier
