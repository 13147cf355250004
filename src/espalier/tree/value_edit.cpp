// Editing a Value by key path.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/tree/follow.h"
#include "espalier/value.h"

namespace espalier {

// The way of a path from a root as far as it leads, for both kinds of constness.
template <class AnyValue>
struct ValueWay {
  ValueWay(AnyValue& root, const KeyPath& path) : end(&root) {
    missing = follow(path, [this](const KeyView& key) {
      const auto position = position_in(*end, key);
      if (!position) return false;
      end = &end->children()[*position];
      keys.push_back(Key(key));
      return true;
    });
  }

  static std::optional<std::size_t> position_in(AnyValue& parent, KeyView key) {
    return parent.position_of(key);
  }

  AnyValue* end;
  KeyPath keys;  // of `end`
  std::optional<KeyView> missing;
};

namespace {

std::string with_article(Kind kind) {
  const std::string name(kind_name(kind));
  return (name.front() == 'i' ? "an " : "a ") + name;
}

template <class AnyValue>
using Way = ValueWay<AnyValue>;

// The value below `root` at its exact keys, for messages.
std::string place(const Value& root, const KeyPath& keys) {
  std::string path;
  const Value* value = &root;
  for (const Key& key : keys) {
    append_path(path, key.view(), DigitMarks(value->keys()).of(key.view()));
    value = &value->children()[*Way<const Value>::position_in(*value, key.view())];
  }
  return path.empty() ? "the root" : "'" + path + "'";
}

template <class AnyValue>
tl::unexpected<Error> no_child(const Value& root, const KeyPath& path, const Way<AnyValue>& way) {
  const Value& parent = *way.end;
  std::string what = "no such key; " + place(root, way.keys) + " is " + with_article(parent.kind());
  what += is_container(parent.kind())
              ? " of " + std::to_string(parent.children().size()) + " without that key"
              : ", which has no children";
  return fail(ErrorCode::kNotFound, std::move(what), Error::kNoOffset, path.to_string());
}

template <class AnyValue>
Result<AnyValue*> descend(AnyValue& root, const KeyPath& path) {
  const Way<AnyValue> way(root, path);
  if (way.missing) return no_child(root, path, way);
  return way.end;
}

// The key for a new child, from a key of a path. Digits become a string if the keys beside it are
// such strings, as in trees made of dotted names.
Key key_to_add(const Value& parent, const Key& key) {
  if (!key.view().is_int) return key;
  const auto keys = parent.keys();
  const auto is_int = [](const Key& other) { return other.view().is_int; };
  const auto is_digits = [](const Key& other) {
    return !other.view().is_int && read_int_key(other.view().text);
  };
  const bool is_text =
      parent.kind() == Kind::kRecord || (std::none_of(keys.begin(), keys.end(), is_int) &&
                                         std::any_of(keys.begin(), keys.end(), is_digits));
  return is_text ? Key(std::to_string(key.view().integer)) : key;
}

// Appends a child under key number `depth` of a path, or says why not.
Result<void> append(const Value& root, const Way<Value>& way, const KeyPath& path,
                    std::size_t depth, Value value) {
  Value& parent = *way.end;
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::kWrongKind, place(root, way.keys) + " is " + why, Error::kNoOffset,
                path.to_string());
  };
  if (!is_container(parent.kind())) {
    return refuse(with_article(parent.kind()) + ", which has no children; set a dict there first");
  }
  if (has_keys(parent.kind())) {
    parent.add(key_to_add(parent, path[depth]), std::move(value));
    return {};
  }
  const KeyView key = path[depth].view();
  const std::size_t count = parent.children().size();
  if (!key.is_int || key.integer != static_cast<std::int64_t>(count)) {
    return refuse(with_article(parent.kind()) + " of " + counted(count, "element") +
                  "; only position " + std::to_string(count) + " can be added");
  }
  parent.add(std::move(value));
  return {};
}

bool same_label(const Value& a, const Value& b) {
  return a.has_label() == b.has_label() && a.label() == b.label();
}

// For each child of `from`, the position of the child of `to` with its key or position. Both are of
// one kind.
std::vector<std::optional<std::size_t>> match_children(const Value& to, const Value& from) {
  if (!has_keys(to.kind())) {
    std::vector<std::optional<std::size_t>> positions(from.children().size());
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = i;
    return positions;
  }
  const auto keys = to.keys();
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  sort_numbers(order, [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
  std::vector<std::optional<std::size_t>> matches;
  matches.reserve(from.keys().size());
  for (const Key& key : from.keys()) {
    const auto at = std::lower_bound(order.begin(), order.end(), key,
                                     [&](std::uint32_t i, const Key& k) { return keys[i] < k; });
    const bool found = at != order.end() && keys[*at] == key;
    matches.push_back(found ? std::optional<std::size_t>(*at) : std::nullopt);
  }
  return matches;
}

}  // namespace

Result<const Value*> Value::at(const KeyPath& path) const& { return descend(*this, path); }

Result<Value*> Value::at(const KeyPath& path) & { return descend(*this, path); }

Result<const Value*> Value::at(std::string_view path) const& {
  const auto parsed = KeyPath::parse(path);
  return parsed ? at(*parsed) : propagate(parsed);
}

Result<Value*> Value::at(std::string_view path) & {
  const auto parsed = KeyPath::parse(path);
  return parsed ? at(*parsed) : propagate(parsed);
}

Result<void> Value::set(const KeyPath& path, Value value) {
  if (const Way<Value> way(*this, path); !way.missing) {
    *way.end = std::move(value);
    return {};
  }
  // From the first key that is missing on, all is new. A new name keeps its dots.
  Way<Value> parent(*this, KeyPath());
  std::size_t depth = 0;
  for (;; ++depth) {
    Way<Value> way(*this, path.first(depth + 1));
    if (way.missing) break;
    parent = std::move(way);
  }
  for (std::size_t below = path.size(); --below > depth;) {
    Value dict = Value::dict();
    dict.add(path[below], std::move(value));
    value = std::move(dict);
  }
  return append(*this, parent, path, depth, std::move(value));
}

Result<void> Value::set(std::string_view path, Value value) {
  const auto parsed = KeyPath::parse(path);
  return parsed ? set(*parsed, std::move(value)) : propagate(parsed);
}

Result<void> Value::erase(const KeyPath& path) {
  if (path.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the root cannot be erased; assign to it instead");
  }
  const Way<Value> way(*this, path);
  if (way.missing) return no_child(*this, path, way);
  Value* parent = Way<Value>(*this, way.keys.parent()).end;
  Children& children = parent->held_or_new();
  const std::size_t position = *parent->position_of(way.keys.back().view());
  const auto offset = static_cast<std::ptrdiff_t>(position);
  if (!children.keys.empty()) children.keys.erase(children.keys.begin() + offset);
  children.values.erase(children.values.begin() + offset);
  children.index.reset();  // The keys after it moved.
  return {};
}

Result<void> Value::erase(std::string_view path) {
  const auto parsed = KeyPath::parse(path);
  return parsed ? erase(*parsed) : propagate(parsed);
}

bool Value::can_join(const Value& a, const Value& b) {
  if (a.kind() != b.kind() || b.defect()) return false;
  if (has_keys(a.kind())) return true;
  return (a.kind() == Kind::kList || a.kind() == Kind::kTuple) &&
         a.children().size() == b.children().size();
}

Result<Value::OnBoth> Value::later_wins(const Value& mine, const Value& other,
                                        const std::function<std::string()>& /*path*/) {
  if (can_join(mine, other)) return OnBoth::kJoin;
  const bool is_gap = other.kind() == Kind::kPlaceholder && mine.as_tensor() != nullptr;
  return is_gap ? OnBoth::kKeep : OnBoth::kReplace;
}

Result<void> Value::merge(Value other, OnConflict on_conflict) {
  const auto rule = [&](const Value& mine, const Value& theirs, const auto&) -> Result<OnBoth> {
    if (mine.kind() == Kind::kDict && can_join(mine, theirs) && same_label(mine, theirs)) {
      return OnBoth::kJoin;
    }
    if (on_conflict == OnConflict::kReplace) return OnBoth::kReplace;
    return fail(ErrorCode::kNameCollision,
                "both trees have this key; erase one, or let the other replace it");
  };
  return merge(std::move(other), rule);
}

Result<void> Value::merge(Value other, const MergeRule& rule) {
  for (const Value* side : {static_cast<const Value*>(this), static_cast<const Value*>(&other)}) {
    if (side->kind() == Kind::kDict) continue;
    return fail(ErrorCode::kWrongKind,
                "only dicts can be merged, and this is " + with_article(side->kind()));
  }
  // First all decisions, so that a refused merge leaves everything as it was. No recursion, because
  // a tree may have any depth.
  struct Pair {
    Value* to;
    Value* from;
    std::size_t around;    // the number of the pair that holds this one
    std::size_t position;  // in `from` of that pair
    std::vector<std::optional<std::size_t>> matches;
    std::vector<OnBoth> decisions;
    std::optional<DigitMarks> marks;  // of the keys of `from`, once a path is printed
  };
  std::vector<Pair> pairs = {{this, &other, 0, 0, match_children(*this, other), {}, {}}};
  const auto path_to = [&](std::size_t pair, std::size_t position) {
    std::vector<std::pair<Pair*, std::size_t>> steps = {{&pairs[pair], position}};
    for (; pair != 0; pair = pairs[pair].around) {
      steps.emplace_back(&pairs[pairs[pair].around], pairs[pair].position);
    }
    std::string path;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      const auto& [parent, i] = *step;
      const auto keys = parent->from->keys();
      // Looking at all keys for each path would take the square of their number.
      if (!parent->marks) parent->marks.emplace(keys);
      const KeyView key = keys.empty() ? KeyView::of(static_cast<std::int64_t>(i)) : keys[i].view();
      append_path(path, key, parent->marks->of(key));
    }
    return path;
  };
  for (std::size_t next = 0; next < pairs.size(); ++next) {
    pairs[next].decisions.resize(pairs[next].matches.size());
    for (std::size_t i = 0; i < pairs[next].matches.size(); ++i) {
      if (!pairs[next].matches[i]) continue;
      Value& to = pairs[next].to->children()[*pairs[next].matches[i]];
      Value& from = pairs[next].from->children()[i];
      auto decision = rule(to, from, [&] { return path_to(next, i); });
      if (!decision) {
        if (decision.error().path.empty()) decision.error().path = path_to(next, i);
        return propagate(decision);
      }
      if (*decision == OnBoth::kJoin && !can_join(to, from)) decision = OnBoth::kReplace;
      pairs[next].decisions[i] = *decision;
      if (*decision == OnBoth::kJoin) {
        pairs.push_back({&to, &from, next, i, match_children(to, from), {}, {}});
      }
    }
  }
  has_lost_child_ = has_lost_child_ || other.has_lost_child_;
  // From the deepest up: appending to a dict moves its children, to which later pairs point.
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    for (std::size_t i = 0; i < pair->matches.size(); ++i) {
      Value& from = pair->from->children()[i];
      if (!pair->matches[i]) {
        pair->to->add(pair->from->keys()[i], std::move(from));
      } else if (pair->decisions[i] == OnBoth::kReplace) {
        pair->to->children()[*pair->matches[i]] = std::move(from);
      }
    }
  }
  return {};
}

}  // namespace espalier
