#include "espalier/foreign/safetensors/kept_header.h"

#include <algorithm>
#include <tuple>

#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/header.h"

namespace espalier {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Not std::ranges::equal(), which the library of Emscripten 3.1.6 lacks.
template <class A, class B>
bool equal(const A& a, const B& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Finds the entry of each tensor; false if the header has others, or some tensor twice.
bool find_entries(const SafetensorsHeader& header, std::span<const NamedTensor> tensors,
                  KeptLayout& layout) {
  if (header.tensors.size() != tensors.size()) return false;
  std::vector<const SafetensorsEntry*> entries;
  entries.reserve(header.tensors.size());
  for (const SafetensorsEntry& entry : header.tensors) entries.push_back(&entry);
  const auto by_name = [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return a->name < b->name;
  };
  std::sort(entries.begin(), entries.end(), by_name);
  const auto same_name = [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return a->name == b->name;
  };
  // As many names as tensors, no name twice: if each tensor has an entry, each entry has a tensor.
  if (std::adjacent_find(entries.begin(), entries.end(), same_name) != entries.end()) return false;
  layout.begins.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) {
    const auto at = std::lower_bound(
        entries.begin(), entries.end(), tensor.name,
        [](const SafetensorsEntry* entry, std::string_view name) { return entry->name < name; });
    if (at == entries.end() || (*at)->name != tensor.name || (*at)->dtype != tensor.dtype ||
        !equal(header.shapes[(*at)->shape], tensor.shape) || (*at)->begin > (*at)->end ||
        (*at)->end - (*at)->begin != tensor.bytes) {
      return false;
    }
    layout.begins.push_back((*at)->begin);
  }
  return true;
}

// Whether the tensors' bytes follow each other without a gap or an overlap.
bool fill_the_buffer(SafetensorsHeader& header) {
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  std::uint64_t end = 0;
  return std::all_of(header.tensors.begin(), header.tensors.end(),
                     [&](const SafetensorsEntry& entry) {
                       return entry.begin == end && (end = entry.end) >= entry.begin;
                     });
}

bool has_pairs(const SafetensorsHeader& header, std::span<const Pair> metadata, bool has_metadata,
               KeptLayout& layout) {
  if (equal(header.metadata, metadata)) return header.has_metadata == has_metadata;
  std::vector<Pair> rest;
  for (const Pair& pair : header.metadata) {
    if (pair.first == kCarriedTreeKey) {
      layout.carried_tree = std::string(pair.second);
    } else {
      rest.push_back(pair);
    }
  }
  return layout.carried_tree && equal(rest, metadata);
}

}  // namespace

void keep_header(Value& metadata, std::string header) {
  if (metadata.find(Key(kKeptHeaderKey)) != nullptr) return;
  metadata.add(kKeptHeaderKey, Value::string(std::move(header)).labelled(kKeptHeaderKey));
}

const std::string* find_kept_header(const Value& metadata) {
  const Value* const kept = metadata.find(Key(kKeptHeaderKey));
  return kept != nullptr && kept->label() == kKeptHeaderKey ? kept->as_string() : nullptr;
}

void forget_header(Value& metadata) {
  if (find_kept_header(metadata) == nullptr) return;
  // It is there, so erasing it cannot fail.
  (void)metadata.erase(KeyPath{Key(kKeptHeaderKey)});
}

std::optional<KeptLayout> fit_kept_header(std::string header, std::span<const NamedTensor> tensors,
                                          std::span<const Pair> metadata, bool has_metadata,
                                          const Limits& limits) {
  if (header.size() > kMaxSafetensorsHeaderBytes) return std::nullopt;
  // The parser wants one more byte.
  header += '\0';
  auto parsed = parse_safetensors_header(header, limits);
  KeptLayout layout;
  if (!parsed || !find_entries(*parsed, tensors, layout) || !fill_the_buffer(*parsed) ||
      !has_pairs(*parsed, metadata, has_metadata, layout)) {
    return std::nullopt;
  }
  return layout;
}

}  // namespace espalier
