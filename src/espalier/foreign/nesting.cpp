#include "espalier/foreign/nesting.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"

namespace espalier {
namespace {

struct Item {
  std::string_view name;
  std::size_t position = 0;
};

// Compares segment by segment: a '.' ends a segment, and so stands before every other byte.
bool dotted_less(std::string_view a, std::string_view b) {
  const auto [i, j] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (i == a.end() || j == b.end()) return i == a.end() && j != b.end();
  const auto rank = [](char c) { return c == '.' ? 0 : 1 + static_cast<unsigned char>(c); };
  return rank(*i) < rank(*j);
}

std::string printed(std::string_view name) {
  std::string path;
  append_path(path, KeyView::of(name));
  return path;
}

// A value and where it was first mentioned.
struct Nested {
  std::size_t position = std::numeric_limits<std::size_t>::max();
  Value value = Value::dict();
};

class Nester {
 public:
  Nester(const Value& flat, const Limits& limits) : flat_(flat), limits_(limits) {}

  // Nests sorted items, which share the first `offset` bytes of their names: those of the segments
  // above. Recursion is bounded by Limits::depth.
  Result<Nested> nest(std::span<const Item> items, std::size_t offset, std::uint32_t depth) const {
    if (depth > limits_.depth) {
      return fail(ErrorCode::kLimitExceeded,
                  "the name has more segments than the " + counted(limits_.depth, "level") +
                      " that Limits::depth allows",
                  Error::kNoOffset, printed(items.front().name));
    }
    std::vector<std::pair<std::string_view, Nested>> children;
    while (!items.empty()) {
      const std::string_view rest = items.front().name.substr(offset);
      const std::string_view segment = rest.substr(0, rest.find('.'));
      // Items are sorted, so those that share the segment stand together.
      std::size_t count = 1;
      while (count < items.size() && shares(items[count].name.substr(offset), segment)) ++count;
      Nested child;
      if (segment.size() == rest.size()) {
        if (count > 1) return clash(items[0].name, items[1].name);
        child = {items.front().position, flat_.children()[items.front().position]};
      } else {
        auto below = nest(items.first(count), offset + segment.size() + 1, depth + 1);
        if (!below) return below;
        child = std::move(*below);
      }
      children.emplace_back(segment, std::move(child));
      items = items.subspan(count);
    }
    std::sort(children.begin(), children.end(),
              [](const auto& a, const auto& b) { return a.second.position < b.second.position; });
    Nested result;
    for (auto& [key, child] : children) {
      result.position = std::min(result.position, child.position);
      result.value.add(Key(key), std::move(child.value));
    }
    return result;
  }

 private:
  static bool shares(std::string_view rest, std::string_view segment) {
    return rest.starts_with(segment) &&
           (rest.size() == segment.size() || rest[segment.size()] == '.');
  }

  static tl::unexpected<Error> clash(std::string_view name, std::string_view other) {
    if (name == other) {
      return fail(ErrorCode::kInvalidTree, "the dict has the same key twice", Error::kNoOffset,
                  printed(name));
    }
    return fail(ErrorCode::kNameCollision,
                "cannot nest the names: " + printed(name) +
                    " would have to be a value and also hold " + printed(other) +
                    "; convert without nesting",
                Error::kNoOffset, printed(name));
  }

  const Value& flat_;
  const Limits& limits_;
};

}  // namespace

Result<Value> nest_dotted(const Value& flat, const Limits& limits) {
  if (flat.kind() != Kind::kDict) {
    return fail(ErrorCode::kWrongKind, "only a dict can be nested");
  }
  std::vector<Item> items;
  items.reserve(flat.keys().size());
  for (const Key& key : flat.keys()) {
    if (key.view().is_int) {
      std::string path;
      append_path(path, key.view());
      return fail(ErrorCode::kWrongKind, "only a dict whose keys are all texts can be nested",
                  Error::kNoOffset, std::move(path));
    }
    items.push_back({key.view().text, items.size()});
  }
  merge_sort_runs(items, [](const Item& a, const Item& b) { return dotted_less(a.name, b.name); });
  auto nested = Nester(flat, limits).nest(items, 0, 1);
  if (!nested) return propagate(nested);
  if (flat.has_label()) {
    return std::move(nested->value).labelled(std::string(flat.label()));
  }
  return std::move(nested->value);
}

}  // namespace espalier
