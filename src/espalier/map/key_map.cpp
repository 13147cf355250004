#include "espalier/key_map.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>

#include "espalier/base/ascii.h"
#include "espalier/base/json_text_writer.h"
#include "espalier/base/json_tree.h"
#include "espalier/base/real_text.h"
#include "espalier/base/utf8.h"
#include "espalier/bytes.h"
#include "espalier/codec/hash.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

// Of "requires": any number above 0.
constexpr std::string_view kPositive = "positive";

constexpr std::uint32_t kMaxJsonDepth = 8;
constexpr std::size_t kMaxTexts = 65536;
constexpr std::size_t kMaxSizes = 1000;
// Texts of tables in all rules: each rule has the texts of its tables.
constexpr std::size_t kMaxChoices = std::size_t{1} << 20;

// The name of one of several values of an enumeration.
template <class T>
using Choices = std::initializer_list<std::pair<std::string_view, T>>;

template <class T>
Result<T> choose(const JsonRef& json, std::string_view member, Choices<T> choices) {
  const auto text = json.text();
  std::string wanted;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    if (!wanted.empty()) wanted += ", ";
    wanted += '"' + std::string(name) + '"';
  }
  return invalid_map('"' + std::string(member) + "\" is one of " + wanted);
}

std::string_view name_of(MapRest rest) {
  return rest == MapRest::kError ? "error" : rest == MapRest::kKeep ? "keep" : "drop";
}

std::string_view name_of(MapAlong::Slot slot) {
  switch (slot) {
    case MapAlong::Slot::kWeight:
      return "weight";
    case MapAlong::Slot::kMoment1:
      return "m1";
    case MapAlong::Slot::kMoment2:
      return "m2";
    case MapAlong::Slot::kMagnitude:
      return "magnitude";
    case MapAlong::Slot::kUpdate2:
      return "update2";
    case MapAlong::Slot::kStepSize:
      return "step_size";
    case MapAlong::Slot::kUnscaled:
      return "unscaled";
    case MapAlong::Slot::kScalar:
      return "scalar";
  }
  return {};
}

}  // namespace

class KeyMap::Parser {
 public:
  Result<KeyMap> parse(std::string_view text) {
    if (text.size() > kMaxBytes) return invalid_map("the map is larger than 4 MiB");
    auto json = JsonTree::parse(text, kMaxJsonDepth, JsonDialect::kForPeople);
    if (!json) {
      return invalid_map("the map is not JSON: look at line " +
                         std::to_string(line(text, json.error())));
    }
    if (!json->root().is_object()) return invalid_map("the map is no JSON object");
    const auto members = json->root().members();
    if (auto ok = check_members(members); !ok) return propagate(ok);
    const auto version = json->root().member("espalier_map");
    if (!version || version->int64() != 1) {
      return invalid_map("the map does not begin with \"espalier_map\": 1");
    }
    // Rules need what the other members say.
    for (const auto& [name, value] : members) {
      if (name == "rules") continue;
      if (auto ok = take(name, value); !ok) return propagate(ok);
    }
    const auto rules = json->root().member("rules");
    if (!rules || !rules->is_array()) return invalid_map("the map has no \"rules\": [...]");
    if (auto ok = take_rules(*rules); !ok) return propagate(ok);
    return KeyMap(std::make_shared<const KeyMapParts>(std::move(map_)));
  }

 private:
  static std::size_t line(std::string_view text, const Error& error) {
    const auto end = static_cast<std::size_t>(std::min<std::uint64_t>(error.offset, text.size()));
    return 1 + static_cast<std::size_t>(
                   std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  }

  // A member that stands twice, or that was misspelt, would be lost without a word.
  static Result<void> check_members(const std::vector<JsonRef::Member>& members) {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : members) {
      if (find_invalid_utf8(name)) return invalid_map("a member's name is not UTF-8");
      names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice == names.end()) return {};
    return invalid_map("\"" + std::string(*twice) + "\" stands twice");
  }

  Result<void> take(std::string_view name, const JsonRef& value) {
    if (name == "espalier_map") return {};
    if (name == "name") return take_text(name, value, map_.name);
    if (name == "description") return take_text(name, value, map_.description);
    if (name == "proved") return {};  // for people: the versions it was compared with
    if (name == "left") return take_side(name, value, map_.left);
    if (name == "right") return take_side(name, value, map_.right);
    if (name == "sizes") return take_sizes(value);
    if (name == "tables") return take_tables(value);
    if (name == "dtypes") return take_dtypes(value);
    if (name == "along") return take_along(value);
    if (name == "lora") return take_lora(value);
    if (name == "requires") return take_required(value);
    if (name == "rest") {
      auto rest = choose<MapRest>(
          value, name,
          {{"error", MapRest::kError}, {"keep", MapRest::kKeep}, {"drop", MapRest::kDrop}});
      if (!rest) return propagate(rest);
      map_.rest = *rest;
      return {};
    }
    return invalid_map("there is no member \"" + std::string(name) + "\" in a map");
  }

  static Result<void> take_text(std::string_view name, const JsonRef& value, std::string& to) {
    const auto text = value.text();
    if (!text || find_invalid_utf8(*text))
      return invalid_map('"' + std::string(name) + "\" is no text");
    to = *text;
    return {};
  }

  static Result<void> take_texts(std::string_view name, const JsonRef& value,
                                 std::vector<std::string>& to) {
    if (value.text()) return take_text(name, value, to.emplace_back());
    if (!value.is_array())
      return invalid_map('"' + std::string(name) + "\" is neither a text nor a list of texts");
    for (const JsonRef each : value) {
      if (auto ok = take_text(name, each, to.emplace_back()); !ok) return ok;
      if (to.size() > kMaxTexts)
        return invalid_map('"' + std::string(name) + "\" has too many texts");
    }
    return {};
  }

  static Result<void> take_side(std::string_view name, const JsonRef& value, MapSide& side) {
    if (value.text()) return take_text(name, value, side.label);
    if (!value.is_object()) return invalid_map('"' + std::string(name) + "\" is no object");
    const auto members = value.members();
    if (auto ok = check_members(members); !ok) return ok;
    for (const auto& [member, each] : members) {
      if (member == "label") {
        if (auto ok = take_text(member, each, side.label); !ok) return ok;
      } else if (member == "names") {
        const auto names = choose<MapSide::Names>(
            each, member, {{"dotted", MapSide::Names::kDotted}, {"paths", MapSide::Names::kPaths}});
        if (!names) return propagate(names);
        side.names = *names;
      } else if (member == "tree") {
        const auto tree = choose<MapSide::Tree>(
            each, member, {{"flat", MapSide::Tree::kFlat}, {"nested", MapSide::Tree::kNested}});
        if (!tree) return propagate(tree);
        side.tree = *tree;
      } else if (member == "unwrap") {
        if (auto ok = take_texts(member, each, side.unwrap); !ok) return ok;
      } else if (member == "axis_names") {
        const auto names = each.boolean();
        if (!names) return invalid_map("\"axis_names\" is neither true nor false");
        side.axis_names = *names;
      } else {
        return invalid_map("there is no member \"" + std::string(member) + "\" in a side");
      }
    }
    return {};
  }

  Result<void> take_sizes(const JsonRef& value) {
    if (!value.is_object()) return invalid_map("\"sizes\" is no object");
    const auto members = value.members();
    // Each may need all others.
    if (members.size() > kMaxSizes) return invalid_map("\"sizes\" has more than 1,000 words");
    if (auto ok = check_members(members); !ok) return ok;
    for (const auto& [word, each] : members) {
      if (!is_identifier(word))
        return invalid_map("the size \"" + std::string(word) + "\" is no word");
      auto& expressions = map_.sizes[std::string(word)];
      if (const auto number = each.uint64()) {
        expressions.push_back({.number = static_cast<double>(*number)});
        continue;
      }
      if (each.int64() || each.real())
        return invalid_map("the size \"" + std::string(word) + "\" is no whole number from 0 on");
      std::vector<std::string> texts;
      if (auto ok = take_texts(word, each, texts); !ok) return ok;
      for (const std::string& text : texts) {
        auto scalar = parse_scalar(text);
        if (!scalar) return propagate(scalar);
        expressions.push_back(std::move(*scalar));
      }
    }
    return {};
  }

  Result<void> take_tables(const JsonRef& value) {
    if (!value.is_object()) return invalid_map("\"tables\" is no object");
    const auto members = value.members();
    if (auto ok = check_members(members); !ok) return ok;
    for (const auto& [word, each] : members) {
      if (!is_identifier(word) || !each.is_object() || each.size() == 0) {
        return invalid_map("the table \"" + std::string(word) + "\" is no object of texts");
      }
      Table& table = context_.tables[std::string(word)];
      for (const auto& [left, right] : each.members()) {
        if (find_invalid_utf8(left)) return invalid_map("a table's text is not UTF-8");
        table.left.emplace_back(left);
        if (auto ok = take_text(word, right, table.right.emplace_back()); !ok) return ok;
      }
      for (auto texts : {table.left, table.right}) {
        for (const std::string& text : texts) {
          // As in a rule, where they separate and enclose choices.
          if (text.find_first_of("|{}`") != std::string::npos) {
            return invalid_map("the table \"" + std::string(word) + "\" has " + in_quotes(text) +
                               "; '|', '{', '}' and '`' have a meaning in names");
          }
        }
        std::sort(texts.begin(), texts.end());
        const auto twice = std::adjacent_find(texts.begin(), texts.end());
        if (twice == texts.end()) continue;
        return invalid_map("\"" + *twice + "\" stands twice in the table \"" + std::string(word) +
                           "\"");
      }
    }
    return {};
  }

  Result<void> take_required(const JsonRef& value) {
    if (!value.is_object()) return invalid_map("\"requires\" is no object");
    const auto members = value.members();
    if (auto ok = check_members(members); !ok) return ok;
    for (const auto& [word, each] : members) {
      std::optional<double> number = each.real();
      if (const auto integer = each.int64()) number = static_cast<double>(*integer);
      if (const auto truth = each.boolean()) number = *truth ? 1 : 0;
      if (each.text() == kPositive) number = kAnyAbove0;
      if (!number) {
        return invalid_map("\"requires\" has no number for \"" + std::string(word) +
                           "\", and not \"positive\"");
      }
      map_.required.emplace(word, *number);
    }
    return {};
  }

  Result<void> take_dtypes(const JsonRef& value) {
    if (!value.is_object()) return invalid_map("\"dtypes\" is no object");
    const auto members = value.members();
    if (auto ok = check_members(members); !ok) return ok;
    for (const auto& [pattern, each] : members) {
      const auto dtype = each.text() ? dtype_from_name(*each.text()) : std::nullopt;
      if (!dtype)
        return invalid_map("\"" + std::string(pattern) + "\" has no dtype such as \"bf16\"");
      map_.dtypes.emplace_back(pattern, *dtype);
    }
    return {};
  }

  Result<void> take_along(const JsonRef& value) {
    if (!value.is_object()) return invalid_map("\"along\" is no object");
    const auto members = value.members();
    if (auto ok = check_members(members); !ok) return ok;
    for (const auto& [name, each] : members) {
      if (name == "left" || name == "right") {
        auto& paths = name == "left" ? map_.along.left : map_.along.right;
        if (auto ok = take_texts(name, each, paths); !ok) return ok;
        continue;
      }
      if (name != "slots" || !each.is_object()) {
        return invalid_map("\"along\" has left, right and slots: {name: kind}");
      }
      for (const auto& [slot, kind] : each.members()) {
        const auto chosen = choose<MapAlong::Slot>(kind, slot,
                                                   {{"weight", MapAlong::Slot::kWeight},
                                                    {"m1", MapAlong::Slot::kMoment1},
                                                    {"m2", MapAlong::Slot::kMoment2},
                                                    {"magnitude", MapAlong::Slot::kMagnitude},
                                                    {"update2", MapAlong::Slot::kUpdate2},
                                                    {"step_size", MapAlong::Slot::kStepSize},
                                                    {"unscaled", MapAlong::Slot::kUnscaled},
                                                    {"scalar", MapAlong::Slot::kScalar}});
        if (!chosen) return propagate(chosen);
        map_.along.slots.emplace(slot, *chosen);
      }
    }
    return {};
  }

  Result<void> take_lora(const JsonRef& value) {
    if (!value.is_object()) return invalid_map("\"lora\" is no object");
    const auto members = value.members();
    if (auto ok = check_members(members); !ok) return ok;
    for (const auto& [name, each] : members) {
      if (name != "left" && name != "right") return invalid_map("\"lora\" has left and right");
      auto& texts = name == "left" ? map_.lora.left : map_.lora.right;
      if (auto ok = take_texts(name, each, texts); !ok) return ok;
    }
    if (map_.lora.left.size() == map_.lora.right.size()) return {};
    return invalid_map("\"lora\" has " + std::to_string(map_.lora.left.size()) +
                       " names on the left and " + std::to_string(map_.lora.right.size()) +
                       " on the right; write one for each on both sides");
  }

  // The long form of a rule, as programs make it.
  static Result<std::string> text_of(const JsonRef& rule) {
    if (const auto text = rule.text()) return std::string(*text);
    if (!rule.is_object()) return invalid_map("it is neither text nor an object");
    std::string sides[2];
    std::string arrow = "<->";
    std::string prefix;
    for (const auto& [name, value] : rule.members()) {
      if (name == "left" || name == "right") {
        std::vector<std::string> parts;
        if (auto ok = take_texts(name, value, parts); !ok) return propagate(ok);
        std::string& side = sides[name == "left" ? 0 : 1];
        for (const std::string& part : parts) side += (side.empty() ? "" : ", ") + part;
      } else if (name == "direction") {
        if (auto ok = take_text(name, value, arrow); !ok) return propagate(ok);
      } else if (name == "optional" && value.boolean()) {
        prefix = *value.boolean() ? "? " : "";
      } else {
        return invalid_map("an object has left, right, direction and optional");
      }
    }
    return prefix + sides[0] + ' ' + arrow + ' ' + sides[1];
  }

  Result<void> take_rules(const JsonRef& rules) {
    if (rules.size() > kMaxRules) return invalid_map("the map has more than 10,000 rules");
    context_.left_separator = map_.left.separator();
    context_.right_separator = map_.right.separator();
    for (const auto& [word, expressions] : map_.sizes) context_.sizes.insert(word);
    for (const JsonRef each : rules) {
      auto rule = take_rule(each);
      if (!rule) {
        rule.error().message =
            "rule " + std::to_string(map_.rules.size() + 1) + ": " + rule.error().message;
        return propagate(rule);
      }
      map_.rules.push_back(std::move(*rule));
    }
    return {};
  }

  Result<Rule> take_rule(const JsonRef& json) {
    auto text = text_of(json);
    if (!text) return propagate(text);
    if (find_invalid_utf8(*text)) return invalid_map("it is not UTF-8");
    for (std::size_t at = 0; (at = text->find('{', at)) != std::string::npos; ++at) {
      const std::size_t end = std::min(text->find('}', at), text->size());
      const auto table = context_.tables.find(text->substr(at + 1, end - at - 1));
      if (table != context_.tables.end()) choices_ += table->second.left.size();
    }
    if (choices_ > kMaxChoices) {
      return invalid_map("the tables have too many texts for so many rules");
    }
    auto rule = parse_rule(*text, context_);
    if (!rule) return rule;
    if (auto ok = check_rule(*rule, context_); !ok) return propagate(ok);
    return rule;
  }

  KeyMapParts map_;
  std::size_t choices_ = 0;
  RuleContext context_;
};

Result<KeyMap> KeyMap::parse(std::string_view text) { return Parser().parse(text); }

const std::string& KeyMap::name() const { return parts_->name; }
const std::string& KeyMap::description() const { return parts_->description; }

std::string KeyMap::canonical() const {
  // Members in the order of their names. Tables stand in the rules.
  JsonTextWriter json;
  json.begin_object();
  json.key("along");
  json.begin_object();
  json.member("left", parts_->along.left);
  json.member("right", parts_->along.right);
  json.key("slots");
  json.begin_object();
  for (const auto& [name, slot] : parts_->along.slots) json.member(name, name_of(slot));
  json.end_object();
  json.end_object();
  json.key("dtypes");
  json.begin_object();
  // In the order of the map, which says which of them counts.
  for (const auto& [pattern, dtype] : parts_->dtypes) json.member(pattern, dtype_name(dtype));
  json.end_object();
  json.member("espalier_map", 1);
  for (const bool is_left : {true, false}) {
    const MapSide& each = parts_->side(is_left);
    json.key(is_left ? "left" : "right");
    json.begin_object();
    if (each.axis_names) json.member("axis_names", true);
    json.member("names", each.names == MapSide::Names::kDotted ? "dotted" : "paths");
    if (each.tree != MapSide::Tree::kLikeInput) {
      json.member("tree", each.tree == MapSide::Tree::kFlat ? "flat" : "nested");
    }
    json.member("unwrap", each.unwrap);
    json.end_object();
  }
  // Maps from before there was such a member keep their hashes.
  if (!parts_->lora.left.empty()) {
    json.key("lora");
    json.begin_object();
    json.member("left", parts_->lora.left);
    json.member("right", parts_->lora.right);
    json.end_object();
  }
  if (!parts_->required.empty()) {
    json.key("requires");
    json.begin_object();
    for (const auto& [word, number] : parts_->required) {
      json.key(word);
      number == kAnyAbove0 ? json.value(kPositive) : json.raw(print_real(number));
    }
    json.end_object();
  }
  json.member("rest", name_of(parts_->rest));
  json.key("rules");
  json.begin_array();
  for (const Rule& rule : parts_->rules) json.value(canonical_text(rule));
  json.end_array();
  json.key("sizes");
  json.begin_object();
  for (const auto& [word, expressions] : parts_->sizes) {
    json.key(word);
    json.begin_array();
    for (const Scalar& scalar : expressions) json.value(to_string(scalar));
    json.end_array();
  }
  json.end_object();
  json.end_object();
  return std::move(json).take();
}

Hash128 KeyMap::hash() const {
  const std::string text = canonical();
  return hash128(std::as_bytes(std::span(text)));
}

}  // namespace espalier
