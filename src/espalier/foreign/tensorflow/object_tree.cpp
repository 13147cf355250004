#include "espalier/foreign/tensorflow/object_tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

// The attribute that is a variable.
constexpr std::string_view kVariable = "VARIABLE_VALUE";
// What is before the name of an attribute in the names of its entries.
constexpr std::string_view kAttributes = ".ATTRIBUTES/";

using Child = ObjectTree::Child;

class ObjectTreeMaker {
 public:
  ObjectTreeMaker(const Bundle& bundle, const ObjectGraph& graph, const Limits& limits,
                  Notes& notes)
      : bundle_(bundle), graph_(graph), limits_(limits), notes_(notes) {}

  Result<ObjectTree> run() {
    claim_entries();
    find_useful();
    tree_.branches.emplace_back();
    branch_of_.assign(graph_.nodes.size(), kNone);
    branch_of_[0] = 0;
    variables_.resize(graph_.nodes.size());
    order_.push_back(0);
    // It grows as branches are found.
    std::size_t with_children = 0;
    std::size_t with_slots = 0;
    while (!error_) {
      if (with_children < order_.size()) {
        add_children(order_[with_children++]);
      } else if (with_slots < order_.size()) {
        add_slots(order_[with_slots++]);
      } else {
        break;
      }
    }
    for (const std::uint32_t node : order_) {
      if (!error_) add_attributes(node);
    }
    if (!error_) add_unclaimed();
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    return std::move(tree_);
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // A search among so few names takes less time than a tree of them.
  static constexpr std::size_t kFewChildren = 16;

  // An entry that an object has.
  struct Stored {
    std::uint32_t node = 0;
    std::string_view name;
    std::uint32_t entry = 0;
    std::string_view full_name = {};
  };
  // Where a variable stands first: the branch and its name in it.
  struct Variable {
    std::uint32_t branch = kNone;
    std::string_view name = {};
  };

  std::uint32_t number_of(const BundleEntry& entry) const {
    return static_cast<std::uint32_t>(&entry - bundle_.entries.data());
  }

  // --- Which entries belong to which objects ---------------------------------------------------

  void claim_entries() {
    std::vector<bool> is_claimed(bundle_.entries.size());
    std::map<std::string_view, std::pair<std::uint32_t, std::string_view>> missing;
    for (std::uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      for (const ObjectGraph::Attribute& attribute : graph_.attributes_of(node)) {
        if (const BundleEntry* const entry = bundle_.find(attribute.key)) {
          stored_.push_back({node, attribute.name, number_of(*entry), attribute.full_name});
          is_claimed[number_of(*entry)] = true;
        } else {
          missing.emplace(attribute.key, std::pair(node, attribute.name));
        }
      }
    }
    std::map<std::string_view, bool> is_found;
    for (std::uint32_t i = 0; i < bundle_.entries.size(); ++i) {
      const std::string_view name = bundle_.entries[i].name;
      if (is_claimed[i] || name == kObjectGraphName) continue;
      // `table-keys` is a part of the attribute `table`.
      const auto* const owner = find_owner(missing, name);
      if (owner == nullptr) continue;
      is_found[owner->first] = true;
      const auto& [node, attribute] = owner->second;
      stored_.push_back({node, make_name(attribute, name.substr(owner->first.size())), i});
    }
    sort_stably(stored_, [](const Stored& a, const Stored& b) { return a.node < b.node; });
    stored_begins_ = begins_of(stored_, [](const Stored& each) { return each.node; });
    for (const auto& [key, owner] : missing) {
      if (is_found.count(key) != 0) continue;
      notes_.add({Note::Kind::kLoss,
                  {},
                  "the object graph names '" + std::string(key) + "', which is not in the index"});
    }
  }

  // Where those of each node begin in a list that is sorted by nodes, or would begin; and its end.
  template <class T, class NodeOf>
  std::vector<std::size_t> begins_of(const std::vector<T>& list, const NodeOf& node_of) const {
    std::vector<std::size_t> begins(graph_.nodes.size() + 1);
    for (const T& each : list) ++begins[node_of(each) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    return begins;
  }

  std::span<const Stored> stored_of(std::uint32_t node) const {
    return std::span(stored_).subspan(stored_begins_[node],
                                      stored_begins_[node + 1] - stored_begins_[node]);
  }

  template <class Map>
  static const typename Map::value_type* find_owner(const Map& missing, std::string_view name) {
    // Longer than the names of attributes.
    constexpr std::size_t kMostTail = 256;
    const std::size_t at = name.rfind(kAttributes);
    if (missing.empty() || at == name.npos) return nullptr;
    const std::size_t begin = at + kAttributes.size();
    if (name.size() - begin > kMostTail) return nullptr;
    for (std::size_t end = name.size(); end > begin; --end) {
      const auto found = missing.find(name.substr(0, end));
      if (found != missing.end()) return &*found;
    }
    return nullptr;
  }

  // Marks the objects that have entries, or from which such an object is reached.
  void find_useful() {
    struct Edge {
      std::uint32_t parent;
      std::uint32_t node;
    };
    std::vector<Edge> edges;
    edges.reserve(graph_.children.size() + graph_.slots.size());
    std::vector<std::uint32_t> found;
    is_useful_.assign(graph_.nodes.size(), false);
    for (std::uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      for (const auto& child : graph_.children_of(node)) edges.push_back({node, child.node});
      for (const auto& slot : graph_.slots_of(node)) edges.push_back({node, slot.node});
      if (stored_of(node).empty()) continue;
      is_useful_[node] = true;
      found.push_back(node);
    }
    const auto begins = begins_of(edges, [](const Edge& edge) { return edge.node; });
    std::vector<std::uint32_t> parents(edges.size());
    auto next = begins;
    for (const Edge& edge : edges) parents[next[edge.node]++] = edge.parent;
    while (!found.empty()) {
      const std::uint32_t node = found.back();
      found.pop_back();
      for (std::size_t i = begins[node]; i < begins[node + 1]; ++i) {
        const std::uint32_t parent = parents[i];
        if (is_useful_[parent]) continue;
        is_useful_[parent] = true;
        found.push_back(parent);
      }
    }
  }

  // Whether an object is a variable and nothing else.
  bool is_variable(std::uint32_t node) const {
    const auto stored = stored_of(node);
    const auto children = graph_.children_of(node);
    const auto slots = graph_.slots_of(node);
    return stored.size() == 1 && stored.front().name == kVariable &&
           std::none_of(children.begin(), children.end(),
                        [&](const auto& child) { return is_useful_[child.node]; }) &&
           std::none_of(slots.begin(), slots.end(),
                        [&](const auto& slot) { return is_useful_[slot.node]; });
  }

  // --- The tree --------------------------------------------------------------------------------

  Error error_at(ErrorCode code, std::string_view message, std::uint32_t branch,
                 std::string_view name) const {
    return {code, Error::kNoOffset, tree_.path_of(branch, name), message};
  }

  // Both together. All of them together are as many as a tree may have.
  std::string_view make_name(std::string_view front, std::string_view back) {
    made_bytes_ += front.size() + back.size();
    if (made_bytes_ > limits_.text_bytes) {
      error_ = Error{ErrorCode::kLimitExceeded,
                     Error::kNoOffset,
                     {},
                     "the names of the object graph take more than the " +
                         counted(limits_.text_bytes, "byte") +
                         " that readers accept (Limits::text_bytes)"};
      return front;
    }
    return tree_.made_names.emplace_back(std::string(front) + std::string(back));
  }

  void put(std::uint32_t branch, const Child& child) {
    if (error_) return;
    if (find_child(branch, child.name) != nullptr) {
      error_ = error_at(ErrorCode::kForeignInvalid,
                        "the object graph has two values under one name", branch, child.name);
      return;
    }
    auto& children = tree_.branches[branch].children;
    children.push_back(child);
    if (children.size() <= kFewChildren) return;
    const auto [large, is_new] = large_.try_emplace(branch);
    for (std::size_t i = is_new ? 0 : children.size() - 1; i < children.size(); ++i) {
      large->second.emplace(children[i].name, i);
    }
  }

  // The child of that name; null if there is none. The names of a branch with many children are in
  // a tree of its own.
  const Child* find_child(std::uint32_t branch, std::string_view name) const {
    const auto& children = tree_.branches[branch].children;
    if (children.size() > kFewChildren) {
      const auto& names = large_.find(branch)->second;
      const auto found = names.find(name);
      return found == names.end() ? nullptr : &children[found->second];
    }
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](const Child& child) { return child.name == name; });
    return found == children.end() ? nullptr : &*found;
  }

  // The name, with a dot before it if a child has it.
  std::string_view free_name(std::uint32_t branch, std::string_view name) {
    return find_child(branch, name) == nullptr ? name : make_name(".", name);
  }

  // A new branch, or none if it would be too deep.
  std::uint32_t add_branch(std::uint32_t parent, std::string_view name) {
    const std::uint32_t depth = tree_.branches[parent].depth + 1;
    if (depth >= limits_.depth) {
      error_ = error_at(ErrorCode::kLimitExceeded,
                        "the tree is deeper than the " + counted(limits_.depth, "level") +
                            " that readers accept (Limits::depth)",
                        parent, name);
      return kNone;
    }
    const auto number = static_cast<std::uint32_t>(tree_.branches.size());
    tree_.branches.push_back({.parent = parent, .name = name, .depth = depth});
    return number;
  }

  // An object as a child of a branch: itself where it is reached first.
  void put_object(std::uint32_t branch, std::string_view name, std::uint32_t node) {
    Child child{.name = name};
    bool is_new = false;
    if (is_variable(node)) {
      const Stored& stored = stored_of(node).front();
      child.number = stored.entry;
      name_variable(branch, name, stored);
    } else if (branch_of_[node] != kNone) {
      child.type = Child::Type::kElsewhere;
      child.number = branch_of_[node];
    } else {
      child.type = Child::Type::kBranch;
      child.number = add_branch(branch, name);
      is_new = true;
    }
    put(branch, child);
    if (error_ || !is_new) return;
    branch_of_[node] = child.number;
    order_.push_back(node);
  }

  void name_variable(std::uint32_t branch, std::string_view name, const Stored& stored) {
    if (is_named_.empty()) is_named_.resize(bundle_.entries.size());
    if (stored.full_name.empty() || is_named_[stored.entry]) return;
    is_named_[stored.entry] = true;
    tree_.full_names.push_back({branch, name, stored.full_name});
  }

  void add_children(std::uint32_t node) {
    const std::uint32_t branch = branch_of_[node];
    const std::string_view saver = graph_.nodes[node].saver;
    if (!saver.empty()) tree_.savers.push_back({branch, {}, saver});
    const auto children = graph_.children_of(node);
    tree_.branches[branch].children.reserve(children.size());
    for (const ObjectGraph::Child& child : children) {
      if (!is_useful_[child.node] || error_) continue;
      Variable& variable = variables_[child.node];
      if (variable.branch == kNone && is_variable(child.node)) variable = {branch, child.name};
      put_object(branch, child.name, child.node);
    }
  }

  // After the children, whose names they must not take.
  void add_attributes(std::uint32_t node) {
    const std::uint32_t branch = branch_of_[node];
    for (const Stored& stored : stored_of(node)) {
      const std::string_view name = free_name(branch, stored.name);
      put(branch, {.name = name, .number = stored.entry});
      name_variable(branch, name, stored);
    }
  }

  // Slots stand below their optimizer: slots/m/PATH for the slot m of the variable at PATH. Below
  // the variable, they would make it a container.
  void add_slots(std::uint32_t node) {
    for (const ObjectGraph::Slot& slot : graph_.slots_of(node)) {
      if (!is_useful_[slot.node]) continue;
      const std::uint32_t slots = slot_branch(branch_of_[node], "slots");
      if (error_) return;
      const std::uint32_t kind = slot_branch(slots, slot.name);
      if (error_) return;
      put_slot(kind, slot);
      if (error_) return;
    }
  }

  // The branch of that name that slots made, or a new one.
  std::uint32_t slot_branch(std::uint32_t parent, std::string_view wanted) {
    for (const std::string& dots : {std::string(), std::string(".")}) {
      const Child* const found = find_child(parent, dots + std::string(wanted));
      if (found != nullptr && slot_branches_.count(found->number) != 0 &&
          found->type == Child::Type::kBranch) {
        return found->number;
      }
    }
    const std::string_view name = free_name(parent, wanted);
    const std::uint32_t branch = add_branch(parent, name);
    put(parent, {name, Child::Type::kBranch, branch});
    slot_branches_.insert(branch);
    return branch;
  }

  void put_slot(std::uint32_t branch, const ObjectGraph::Slot& slot) {
    std::vector<std::string_view> path;
    std::uint32_t above = branch_of_[slot.original];
    if (const Variable& variable = variables_[slot.original]; variable.branch != kNone) {
      path.push_back(variable.name);
      above = variable.branch;
    }
    if (above == kNone || (above == 0 && path.empty())) {
      // Its variable is in no part of the tree.
      path.push_back(make_name("node ", std::to_string(slot.original)));
      above = 0;
    }
    for (; above != 0; above = tree_.branches[above].parent) {
      path.push_back(tree_.branches[above].name);
    }
    for (; path.size() > 1; path.pop_back()) {
      branch = slot_branch(branch, path.back());
      if (error_) return;
    }
    put_object(branch, free_name(branch, path.front()), slot.node);
  }

  // What no object of the tree has, by their whole names.
  void add_unclaimed() {
    std::vector<bool> is_placed(bundle_.entries.size());
    for (const ObjectTree::Branch& branch : tree_.branches) {
      for (const Child& child : branch.children) {
        if (child.type == Child::Type::kEntry) is_placed[child.number] = true;
      }
    }
    std::uint32_t unclaimed = kNone;
    for (std::uint32_t i = 0; i < bundle_.entries.size(); ++i) {
      if (is_placed[i] || bundle_.entries[i].name == kObjectGraphName) continue;
      if (unclaimed == kNone) unclaimed = slot_branch(0, "unclaimed");
      if (error_) return;
      put(unclaimed, {.name = bundle_.entries[i].name, .number = i});
    }
  }

  const Bundle& bundle_;
  const ObjectGraph& graph_;
  const Limits& limits_;
  Notes& notes_;
  std::vector<Stored> stored_;  // sorted by node
  std::vector<std::size_t> stored_begins_;
  std::vector<bool> is_useful_;           // by node
  std::vector<std::uint32_t> branch_of_;  // by node
  std::vector<Variable> variables_;       // by node
  std::vector<std::uint32_t> order_;      // nodes that are branches
  std::vector<bool> is_named_;            // by entry
  // Of branches with more than kFewChildren: the positions of their children by name.
  std::map<std::uint32_t, std::map<std::string_view, std::size_t>> large_;
  std::set<std::uint32_t> slot_branches_;
  std::uint64_t made_bytes_ = 0;
  ObjectTree tree_;
  std::optional<Error> error_;
};

}  // namespace

std::string ObjectTree::path_of(std::uint32_t branch, std::optional<std::string_view> child) const {
  std::vector<std::string_view> names;
  names.reserve(branches[branch].depth + 1);
  if (child) names.push_back(*child);
  for (; branch != 0; branch = branches[branch].parent) names.push_back(branches[branch].name);
  std::string path;
  for (; !names.empty(); names.pop_back()) {
    append_path(path, KeyView::of(names.back()), DigitMark::kNever);
  }
  return path;
}

Result<ObjectTree> make_object_tree(const Bundle& bundle, const ObjectGraph& graph,
                                    const Limits& limits, Notes& notes) {
  return ObjectTreeMaker(bundle, graph, limits, notes).run();
}

ObjectTree make_flat_tree(const Bundle& bundle) {
  ObjectTree tree;
  ObjectTree::Branch& root = tree.branches.emplace_back();
  root.children.reserve(bundle.entries.size());
  for (std::uint32_t i = 0; i < bundle.entries.size(); ++i) {
    root.children.push_back({.name = bundle.entries[i].name, .number = i});
  }
  return tree;
}

}  // namespace espalier
