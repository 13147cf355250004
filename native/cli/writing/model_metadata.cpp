#include "cli/writing/model_metadata.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/foreign/shards/index.h"

namespace espalier::cli {
namespace {

bool is_dict(const Value& value) { return value.kind() == Kind::kDict && !value.has_label(); }

bool names_shard(KeyView key) {
  return !key.is_int && (key.text.ends_with(".safetensors") || key.text.ends_with(".bin"));
}

// What the index says but for sizes, which are made anew; nothing if it says what no index could.
std::optional<Value> said_by(const Value& index) {
  std::vector<Value::Item> items;
  for (std::size_t i = 0; i < index.children().size(); ++i) {
    const Value& member = index.children()[i];
    if (index.keys()[i].view() != KeyView::of("metadata") || !is_dict(member)) return std::nullopt;
    for (std::size_t k = 0; k < member.children().size(); ++k) {
      const Key& key = member.keys()[k];
      const Value& value = member.children()[k];
      if (key.view() == KeyView::of("total_size") ||
          key.view() == KeyView::of("total_parameters")) {
        continue;
      }
      const Kind kind = value.kind();
      const bool is_plain = kind == Kind::kString || kind == Kind::kInt64 || kind == Kind::kBool;
      if (!is_plain || value.has_label() || key.view().is_int) return std::nullopt;
      items.emplace_back(key, value);
    }
  }
  return Value::dict(std::move(items));
}

// Whether both are the same texts.
bool are_same_texts(const Value& a, const Value& b) {
  if (a.children().size() != b.children().size()) return false;
  for (std::size_t i = 0; i < a.children().size(); ++i) {
    const std::string* const text = a.children()[i].as_string();
    const Value* const other = b.find(a.keys()[i]);
    if (text == nullptr || other == nullptr || other->as_string() == nullptr) return false;
    if (*text != *other->as_string()) return false;
  }
  return true;
}

}  // namespace

ModelMetadata model_metadata(Value metadata) {
  if (!is_dict(metadata)) return {std::move(metadata)};
  Value of_index = Value::dict();
  const Value* of_file = nullptr;
  bool is_of_model = false;
  std::vector<Value::Item> items;
  for (std::size_t i = 0; i < metadata.children().size(); ++i) {
    const Key& key = metadata.keys()[i];
    const Value& value = metadata.children()[i];
    if (is_dict(value) && key.view() == KeyView::of(kIndexKey)) {
      auto said = said_by(value);
      if (!said) return {std::move(metadata)};
      of_index = std::move(*said);
      is_of_model = true;
    } else if (is_dict(value) && names_shard(key.view())) {
      if (of_file != nullptr && !are_same_texts(*of_file, value)) return {std::move(metadata)};
      of_file = &value;
      is_of_model = true;
    } else {
      items.emplace_back(key, value);
    }
  }
  if (!is_of_model) return {std::move(metadata)};
  for (std::size_t i = 0; of_file != nullptr && i < of_file->children().size(); ++i) {
    const Key& key = of_file->keys()[i];
    const bool is_taken = std::any_of(items.begin(), items.end(), [&](const Value::Item& item) {
      return item.first.view() == key.view();
    });
    if (is_taken) return {std::move(metadata)};
    items.emplace_back(key, of_file->children()[i]);
  }
  return {Value::dict(std::move(items)), std::move(of_index)};
}

}  // namespace espalier::cli
