// Copies the tables of a tree of another module.
#ifndef ESPALIER_WASM_COPIED_TABLES_H_
#define ESPALIER_WASM_COPIED_TABLES_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/owned_tables.h"

namespace espalier::abi {

template <class T>
std::vector<T> copied(std::span<const T> items) {
  return {items.begin(), items.end()};
}

inline OwnedTables copied(const Tables& t) {
  return {.nodes = copied(t.nodes),
          .tensors = copied(t.tensors),
          .chunks = copied(t.chunks),
          .shape_ends = copied(t.shape_ends),
          .dims = copied(t.dims),
          .words = copied(t.words),
          .text_ends = copied(t.text_ends),
          .text = copied(t.text),
          .bytes = copied(t.bytes),
          .labels = copied(t.labels),
          .dict_orders = copied(t.dict_orders),
          .order = copied(t.order),
          .axes = copied(t.axes),
          .axis_names = copied(t.axis_names),
          .blocks = copied(t.blocks),
          .files = copied(t.files),
          .bases = copied(t.bases),
          .storages = copied(t.storages),
          .strides = copied(t.strides)};
}

/// The digest at an address; none if that is null.
inline std::optional<Hash128> copied(const std::uint8_t* digest) {
  std::optional<Hash128> copy;
  if (digest != nullptr) std::memcpy(&copy.emplace(), digest, sizeof(Hash128));
  return copy;
}

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_COPIED_TABLES_H_
