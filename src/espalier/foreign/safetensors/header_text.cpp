#include "espalier/foreign/safetensors/header_text.h"

#include <vector>

#include "espalier/base/json_text.h"
#include "espalier/base/merge_sort.h"
#include "espalier/foreign/safetensors/dtype.h"
#include "espalier/foreign/safetensors/tables.h"
#include "espalier/format/access.h"

namespace espalier {
namespace {

// The nodes of the tensors in the order of the reference library: wide elements first, then by
// name.
std::vector<std::uint32_t> usual_order(const Tables& t) {
  const NodeRecord& root = t.nodes[kStateRoot];
  std::vector<std::uint32_t> order;
  order.reserve(root.count);
  for (std::uint32_t i = 0; i < root.count; ++i) order.push_back(root.value + i);
  const auto rank = [&](const NodeRecord& node) {
    return safetensors_dtype_rank(static_cast<DType>(t.tensors[node.value].dtype));
  };
  merge_sort_runs(order, [&](std::uint32_t a, std::uint32_t b) {
    const auto left = rank(t.nodes[a]);
    const auto right = rank(t.nodes[b]);
    return left != right ? left > right : key_less(t, t.nodes[a], t.nodes[b]);
  });
  return order;
}

}  // namespace

void HeaderText::begin_member(std::string& out) {
  out += is_empty_ ? '{' : ',';
  is_empty_ = false;
}

void HeaderText::begin_metadata(std::string& out) {
  begin_member(out);
  append_json_string(out, kSafetensorsMetadataName);
  out += ":{";
}

void HeaderText::add_pair(std::string& out, std::string_view key, std::string_view value) {
  if (has_pairs_) out += ',';
  has_pairs_ = true;
  append_json_string(out, key);
  out += ':';
  append_json_string(out, value);
}

void HeaderText::end_metadata(std::string& out) { out += '}'; }

void HeaderText::add_tensor(std::string& out, std::string_view name, DType dtype,
                            std::span<const std::uint64_t> shape, std::uint64_t begin,
                            std::uint64_t end) {
  begin_member(out);
  append_json_string(out, name);
  out += ":{\"dtype\":";
  append_json_string(out, safetensors_dtype_name(dtype));
  out += ",\"shape\":";
  append_json_array(out, shape);
  out += ",\"data_offsets\":[";
  append_number(out, begin);
  out += ',';
  append_number(out, end);
  out += "]}";
}

void HeaderText::end(std::string& out, std::uint64_t length) {
  const std::size_t begin = out.size();
  out += is_empty_ ? "{}" : "}";
  length += out.size() - begin;
  out.append(static_cast<std::size_t>((8 - length % 8) % 8), ' ');
}

bool is_usual_header(std::string_view header, const Catalog& catalog) {
  if (catalog.is_nested()) return false;
  const Tables& t = catalog.tables();
  HeaderText text;
  std::string piece;
  std::size_t at = 0;
  const auto goes_on = [&] {
    const bool is_same = header.substr(at).starts_with(piece);
    at += piece.size();
    piece.clear();
    return is_same;
  };
  const NodeRecord& metadata = t.nodes[kMetadataRoot];
  if (metadata.count > 0 || table_label(t, kMetadataRoot)) {
    text.begin_metadata(piece);
    for (const NodeRecord& pair : t.nodes.subspan(metadata.value, metadata.count)) {
      text.add_pair(piece, table_text(t, pair.key), table_text(t, pair.value));
      if (!goes_on()) return false;
    }
    text.end_metadata(piece);
  }
  std::uint64_t begin = 0;
  for (const std::uint32_t node : usual_order(t)) {
    const TensorRecord& tensor = t.tensors[t.nodes[node].value];
    const std::uint64_t end = begin + table_tensor_bytes(t, tensor);
    text.add_tensor(piece, table_text(t, t.nodes[node].key), static_cast<DType>(tensor.dtype),
                    table_shape(t, tensor.shape), begin, end);
    if (!goes_on()) return false;
    begin = end;
  }
  text.end(piece, at + piece.size());
  return goes_on() && at == header.size();
}

}  // namespace espalier
