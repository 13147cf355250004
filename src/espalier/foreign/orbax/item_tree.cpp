#include "espalier/foreign/orbax/item_tree.h"

#include <charconv>
#include <map>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/common/json_text.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

using OrbaxType = OrbaxNode::Type;

tl::unexpected<Error> bad_tree(const std::string& why) {
  return fail(ErrorCode::kForeignInvalid, "_METADATA does not describe a tree as Orbax does: " +
                                              why + "; copy or download the checkpoint again");
}

std::optional<std::size_t> position_of(std::string_view key) {
  std::size_t position = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), position);
  const bool is_decimal =
      error == std::errc{} && end == key.data() + key.size() && (key == "0" || key[0] != '0');
  return is_decimal ? std::optional(position) : std::nullopt;
}

class TreeReader {
 public:
  TreeReader(OrbaxTree& tree, Notes& notes, std::string path, const Limits& limits)
      : tree_(tree), notes_(notes), path_(std::move(path)), limits_(limits) {}

  Result<OrbaxItemTree> read(JsonRef entries, std::optional<JsonRef> rich) {
    OrbaxItemTree read{.root = tree_.add({.type = OrbaxType::kDict})};
    parts_[read.root] = {};
    for (const auto& [key_path, entry] : entries.members()) {
      auto leaf = add_entry(read.root, entry, entries.size() == 1);
      if (!leaf) return propagate(leaf);
      read.leaves.push_back(std::move(*leaf));
    }
    for (const auto& [node, part] : parts_) make_list(node, part);
    if (rich) enrich(read.root, *rich);
    return read;
  }

 private:
  // A container, while it grows.
  struct Part {
    std::map<std::string_view, std::uint32_t> children;
    std::size_t positions = 0;  // children that are elements of a sequence
    std::string path;
  };

  Result<OrbaxLeaf> add_entry(std::uint32_t root, JsonRef entry, bool is_only) {
    const auto keys = entry.member("key_metadata");
    const auto value = entry.member("value_metadata");
    if (!keys || !keys->is_array() || !value || !value->is_object()) {
      return bad_tree("an entry has no key_metadata or no value_metadata");
    }
    OrbaxLeaf leaf{.name = {},
                   .path = path_,
                   .value_type = text_of(value->member("value_type")),
                   .node = root};
    const auto skip = value->member("skip_deserialize");
    leaf.is_empty = skip && skip->boolean() == true;
    std::size_t left = keys->size();
    // Each level keeps its path, so that those of a deep tree take the square of its keys.
    if (left > limits_.depth) {
      return fail(ErrorCode::kLimitExceeded,
                  "a value of the tree has " + counted(left, "key") + " and readers accept " +
                      std::to_string(limits_.depth) + " (Limits::depth)");
    }
    if (left == 0) {
      // A value alone is the whole tree.
      if (!is_only) return bad_tree("an entry without keys is beside others");
      tree_[root].type = OrbaxType::kNull;
      return leaf;
    }
    for (const JsonRef key : *keys) {
      const auto text = key.member("key") ? key.member("key")->text() : std::nullopt;
      const auto type = key.member("key_type") ? key.member("key_type")->uint64() : std::nullopt;
      if (!text || (type != 1u && type != 2u)) return bad_tree("a key is of an unknown type");
      --left;
      const std::uint32_t parent = leaf.node;
      const auto part = parts_.find(parent);
      if (part == parts_.end()) return bad_tree("a value has others below it");
      const auto [found, is_new] = part->second.children.emplace(*text, 0);
      if (is_new) {
        found->second = tree_.add({.type = left > 0 ? OrbaxType::kDict : OrbaxType::kNull});
        tree_.add_child(parent, *text, found->second);
        if (type == 1u) ++part->second.positions;
      } else if (left == 0) {
        return bad_tree("two values have the same keys");
      }
      leaf.node = found->second;
      // Keys may be empty.
      if (parent != root) leaf.name += '.';
      leaf.name += *text;
      append_path(leaf.path, KeyView::of(*text), DigitMark::kNever);
      if (is_new && left > 0) parts_[leaf.node].path = leaf.path;
    }
    return leaf;
  }

  // A container whose keys are all positions, from 0 on, is a list.
  void make_list(std::uint32_t node, const Part& part) {
    if (part.positions == 0) return;
    auto& children = tree_[node].children;
    std::vector<OrbaxNode::Child> elements(children.size());
    std::size_t placed = 0;
    for (const auto& child : children) {
      const auto position = position_of(child.key);
      if (!position || *position >= elements.size()) break;
      elements[*position] = {{}, child.node};
      ++placed;
    }
    if (part.positions == children.size() && placed == children.size()) {
      children = std::move(elements);
      tree_[node].type = OrbaxType::kList;
      return;
    }
    notes_.add({Note::Kind::kWarning, part.path,
                "some elements of this sequence are not in the checkpoint, so it is a dict of "
                "those that are"});
  }

  // Sets what JSON calls a tuple or a named tuple, where the node has the same children: a dict of
  // a user may have the key "category", too. It recurses as deep as the JSON is nested.
  void enrich(std::uint32_t number, JsonRef json) {
    OrbaxNode& node = tree_[number];
    if (!node.is_container()) return;
    const auto entries = json.is_object() ? json.member("entries") : std::nullopt;
    const std::string_view category =
        json.is_object() ? text_of(json.member("category")) : std::string_view();
    const std::string_view name = entries ? text_of(json.member("clazz")) : std::string_view();
    if (entries && entries->is_array() && entries->size() == node.children.size()) {
      if (category == "custom" && name == "tuple" && node.type == OrbaxType::kList) {
        node.type = OrbaxType::kTuple;
        return enrich_elements(node, *entries);
      }
      if (category == "namedtuple" && node.type == OrbaxType::kDict &&
          make_record(number, json, *entries)) {
        return;
      }
    }
    if (json.is_array() && node.type == OrbaxType::kList && json.size() == node.children.size()) {
      return enrich_elements(node, json);
    }
    if (!json.is_object() || node.type != OrbaxType::kDict) return;
    const auto children = children_of(number);
    for (const auto& [key, value] : json.members()) {
      const auto child = children.find(key);
      if (child != children.end()) enrich(child->second, value);
    }
  }

  std::map<std::string_view, std::uint32_t> children_of(std::uint32_t number) const {
    const auto part = parts_.find(number);
    return part == parts_.end() ? std::map<std::string_view, std::uint32_t>()
                                : part->second.children;
  }

  void enrich_elements(const OrbaxNode& node, JsonRef entries) {
    std::size_t i = 0;
    for (const JsonRef entry : entries) enrich(node.children[i++].node, entry);
  }

  bool make_record(std::uint32_t number, JsonRef json, JsonRef entries) {
    OrbaxNode& node = tree_[number];
    // Without those that became fields.
    auto children = children_of(number);
    std::vector<OrbaxNode::Child> fields;
    std::vector<std::pair<std::uint32_t, JsonRef>> values;
    for (const JsonRef entry : entries) {
      const std::string_view key = text_of(entry.member("key"));
      const auto value = entry.member("value");
      const auto child = children.find(key);
      if (!value || child == children.end()) return false;
      fields.push_back({child->first, child->second});
      values.emplace_back(child->second, *value);
      children.erase(child);
    }
    node.children = std::move(fields);
    node.type = OrbaxType::kRecord;
    // A label, as classes of other files have: nothing is imported by it.
    const std::string module(text_of(json.member("module")));
    node.label = (module.empty() ? "" : module + ".") + std::string(text_of(json.member("clazz")));
    for (const auto& [child, value] : values) enrich(child, value);
    return true;
  }

  OrbaxTree& tree_;
  Notes& notes_;
  std::string path_;
  const Limits& limits_;
  std::map<std::uint32_t, Part> parts_;
};

}  // namespace

Result<OrbaxItemTree> read_orbax_tree(JsonRef metadata, std::optional<JsonRef> rich,
                                      const std::string& path, const Limits& limits,
                                      OrbaxTree& tree, Notes& notes) {
  const auto entries = metadata.member("tree_metadata");
  if (!entries || !entries->is_object()) return bad_tree("it has no tree_metadata");
  return TreeReader(tree, notes, path, limits).read(*entries, rich);
}

}  // namespace espalier
