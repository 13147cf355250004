#include "espalier/checkpoint.h"

#include <algorithm>

#include "espalier/codec/codec.h"
#include "espalier/dtype.h"
#include "espalier/format/access.h"
#include "espalier/format/digest.h"
#include "espalier/format/file_set.h"
#include "espalier/format/find_path.h"

namespace espalier {

std::vector<std::string_view> TensorRef::axis_names() const {
  const Tables& t = catalog_->tables();
  std::vector<std::string_view> names;
  for (const std::uint32_t text : table_axis_names(t, number_, shape().size())) {
    names.push_back(table_text(t, text));
  }
  return names;
}

BlockType TensorRef::block() const { return table_block(catalog_->tables(), record().block); }

std::uint64_t TensorRef::stored_bytes() const {
  std::uint64_t stored = 0;
  for (const ChunkRecord& chunk : table_chunks(catalog_->tables(), number_)) {
    stored += chunk.stored;
  }
  return stored;
}

const StorageRecord* TensorRef::storage() const {
  return table_storage(catalog_->tables(), number_);
}

std::uint64_t TensorRef::storage_bytes() const {
  return table_storage_bytes(catalog_->tables(), number_);
}

std::uint64_t TensorRef::unusual_bytes() const {
  return table_tensor_bytes(catalog_->tables(), record());
}

std::uint32_t TensorRef::first_chunk() const { return record().first_chunk; }

std::uint32_t TensorRef::chunk_count() const {
  return static_cast<std::uint32_t>(table_chunks(catalog_->tables(), number_).size());
}

std::optional<Extent> TensorRef::raw_extent() const {
  if (is_placeholder()) return std::nullopt;
  if (storage() != nullptr) return std::nullopt;
  const auto chunks = table_chunks(catalog_->tables(), number_);
  if (chunks.empty()) return Extent{};
  Extent whole{chunks.front().file, chunks.front().offset, 0};
  for (const ChunkRecord& chunk : chunks) {
    if (chunk.codec != static_cast<std::uint8_t>(Codec::kRaw) || chunk.file != whole.file ||
        chunk.offset != whole.offset + whole.length) {
      return std::nullopt;
    }
    whole.length += chunk.stored;
  }
  return whole;
}

std::optional<Hash128> TensorRef::content_hash() const {
  if (is_placeholder() || !catalog_->has_hashes()) return std::nullopt;
  return tensor_digest(catalog_->tables(), number_);
}

Result<void> check_readable(const TensorRef& tensor) {
  const Catalog& catalog = tensor.catalog();
  // File 0 has been read; most checkpoints have no other.
  if (catalog.files().size() == 1 || tensor.is_placeholder()) return {};
  const auto check = [&](std::span<const ChunkRecord> records) -> Result<void> {
    for (const ChunkRecord& record : records) {
      if (const auto& problem = catalog.files()[record.file].problem) {
        Error error = *problem;
        error.path = tensor_path(tensor);
        return tl::unexpected<Error>(std::move(error));
      }
    }
    return {};
  };
  auto ok = check(table_chunks(catalog.tables(), tensor.number()));
  for (std::uint32_t i = 0; ok && !catalog.tables().bases.empty() && i < tensor.chunk_count();
       ++i) {
    ok = check(tensor.bases(i));
  }
  return ok;
}

std::string tensor_path(const TensorRef& tensor) {
  return find_tensor_path(tensor.catalog().tables(), tensor.number());
}

std::optional<std::string_view> NodeRef::label() const {
  const auto text = table_label(catalog_->tables(), number_);
  if (!text) return std::nullopt;
  return table_text(catalog_->tables(), *text);
}

std::optional<bool> NodeRef::as_bool() const {
  if (kind() != Kind::kBool) return std::nullopt;
  return record().value != 0;
}

std::optional<std::int64_t> NodeRef::as_int64() const {
  if (kind() != Kind::kInt64) return std::nullopt;
  return table_int(catalog_->tables(), record().value);
}

std::optional<BigInt> NodeRef::as_bigint() const {
  if (kind() != Kind::kBigInt) return std::nullopt;
  const NodeRecord& node = record();
  auto value = BigInt::from_bytes(catalog_->tables().bytes.subspan(node.value, node.count));
  if (!value) return std::nullopt;
  return std::move(*value);
}

std::optional<double> NodeRef::as_double() const {
  if (kind() != Kind::kFloat64) return std::nullopt;
  return bits_as<double>(catalog_->tables().words[record().value]);
}

std::optional<Complex> NodeRef::as_complex() const {
  if (kind() != Kind::kComplex128) return std::nullopt;
  const auto words = catalog_->tables().words.subspan(record().value, 2);
  return Complex(bits_as<double>(words[0]), bits_as<double>(words[1]));
}

std::optional<std::string_view> NodeRef::as_string() const {
  if (kind() != Kind::kString) return std::nullopt;
  return table_text(catalog_->tables(), record().value);
}

std::optional<ByteSpan> NodeRef::as_bytes() const {
  if (kind() != Kind::kBytes) return std::nullopt;
  const NodeRecord& node = record();
  return catalog_->tables().bytes.subspan(node.value, node.count);
}

KeyView NodeRef::key(std::uint32_t i) const {
  if (!has_keys(kind())) return KeyView::of(std::int64_t{i});
  return node_key(catalog_->tables(), catalog_->tables().nodes[record().value + i]);
}

std::optional<NodeRef> NodeRef::find(KeyView wanted) const {
  const std::uint32_t count = size();
  if (!has_keys(kind())) {
    if (!wanted.is_int || wanted.integer < 0 || wanted.integer >= std::int64_t{count}) {
      return std::nullopt;
    }
    return child(static_cast<std::uint32_t>(wanted.integer));
  }
  if (count <= kSmallDict) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (key(i) == wanted) return child(i);
    }
    return std::nullopt;
  }
  const Tables& t = catalog_->tables();
  const auto entry = std::lower_bound(
      t.dict_orders.begin(), t.dict_orders.end(), number_,
      [](const DictOrderRecord& order, std::uint32_t node) { return order.node < node; });
  const bool ordered = entry == t.dict_orders.end() || entry->node != number_;
  const auto position = [&](std::uint32_t rank) {
    return ordered ? rank : t.order[entry->first + rank];
  };
  std::uint32_t begin = 0;
  std::uint32_t end = count;
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (key(position(middle)) < wanted) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  if (begin == count || key(position(begin)) != wanted) return std::nullopt;
  return child(position(begin));
}

DigitMark NodeRef::digit_mark(KeyView key) const {
  const auto integer = key.is_int ? std::nullopt : read_int_key(key.text);
  return integer && !find(KeyView::of(*integer)) ? DigitMark::kNever : DigitMark::kAlways;
}

std::string printed_path(const NodeRef& root, const KeyPath& keys) {
  std::string path;
  NodeRef node = root;
  for (const Key& key : keys) {
    append_path(path, key.view(), node.digit_mark(key.view()));
    node = *node.find(key.view());
  }
  return path;
}

std::uint32_t Checkpoint::tensor_count() const {
  return static_cast<std::uint32_t>(catalog_->tables().tensors.size());
}

}  // namespace espalier
