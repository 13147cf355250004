// Small lookups in tables, shared by what checks them and what reads them afterwards.
//
// Nothing here checks ranges: the caller has, or validate() has.
#ifndef ESPALIER_FORMAT_ACCESS_H_
#define ESPALIER_FORMAT_ACCESS_H_

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "espalier/format/tables.h"
#include "espalier/tree/dtype.h"
#include "espalier/tree/key_path.h"
#include "espalier/tree/kind.h"

namespace espalier {

inline Kind node_kind(const NodeRecord& node) { return static_cast<Kind>(node.kind); }

inline std::string_view table_text(const Tables& t, std::uint32_t text) {
  const std::uint32_t begin = text == 0 ? 0 : t.text_ends[text - 1];
  return {t.text.data() + begin, t.text_ends[text] - begin};
}

inline std::span<const std::uint64_t> table_shape(const Tables& t, std::uint32_t shape) {
  const std::uint32_t begin = shape == 0 ? 0 : t.shape_ends[shape - 1];
  return t.dims.subspan(begin, t.shape_ends[shape] - begin);
}

inline std::int64_t table_int(const Tables& t, std::uint32_t word) {
  return std::bit_cast<std::int64_t>(t.words[word]);
}

inline BlockType table_block(const Tables& t, std::uint16_t block) {
  if (block == 0) return {};
  const BlockRecord& record = t.blocks[block - 1u];
  return {table_text(t, record.name), record.elements, record.bytes};
}

/// The key of a child of a dict or record.
inline KeyView node_key(const Tables& t, const NodeRecord& node) {
  if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
    return KeyView::of(table_int(t, node.key));
  }
  return KeyView::of(table_text(t, node.key));
}

/// Whether key `a` stands before key `b`: ints first, by value, then texts. Texts are sorted in their
/// pool, so that their numbers compare as they do.
inline bool key_less(const Tables& t, const NodeRecord& a, const NodeRecord& b) {
  if (a.key_kind != b.key_kind) return a.key_kind == static_cast<std::uint8_t>(KeyKind::kInt);
  if (a.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
    return table_int(t, a.key) < table_int(t, b.key);
  }
  return a.key < b.key;
}

}  // namespace espalier

#endif  // ESPALIER_FORMAT_ACCESS_H_
