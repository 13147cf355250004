#include "espalier/format/digest.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/base/merge_sort.h"
#include "espalier/codec/hash.h"
#include "espalier/format/access.h"
#include "espalier/format/find_path.h"

namespace espalier {
namespace {

// The encoding that is hashed, rebuilt for every node in the same buffer. A long encoding, such as
// that of a dict with a million children, is hashed in parts.
class Encoding {
 public:
  void clear() {
    bytes_.clear();
    pieces_.reset();
  }

  void raw(const void* data, std::size_t size) {
    if (size > kPieceBytes - bytes_.size()) {
      if (!pieces_) pieces_.emplace();
      pieces_->update(as_bytes(bytes_));
      bytes_.clear();
      if (size > kPieceBytes) {
        pieces_->update({static_cast<const std::byte*>(data), size});
        return;
      }
    }
    bytes_.append(static_cast<const char*>(data), size);
  }
  template <class T>
  void number(T value) {
    raw(&value, sizeof value);
  }
  void sized(ByteSpan bytes) {
    number(static_cast<std::uint32_t>(bytes.size()));
    raw(bytes.data(), bytes.size());
  }

  Hash128 hash() {
    if (!pieces_) return hash128(as_bytes(bytes_));
    pieces_->update(as_bytes(bytes_));
    bytes_.clear();
    return pieces_->hash();
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

  std::string bytes_;
  std::optional<Hasher128> pieces_;
};

// Compares hashes as byte strings, as in the file. For little-endian numbers that is not their
// numeric order.
bool bytes_less(const Hash128& a, const Hash128& b) {
  return std::memcmp(&a, &b, sizeof(Hash128)) < 0;
}

// `text_hash` returns the hash of a text by its number.
template <class TextHash>
Hash128 hash_tensor(const Tables& t, std::uint32_t number, Encoding& encoding,
                    const TextHash& text_hash) {
  const TensorRecord& tensor = t.tensors[number];
  const auto shape = table_shape(t, tensor.shape);
  encoding.clear();
  encoding.number(tensor.dtype);
  encoding.number(static_cast<std::uint32_t>(shape.size()));
  encoding.raw(shape.data(), shape.size_bytes());
  if (tensor.block != 0) {
    const BlockRecord& block = t.blocks[tensor.block - 1u];
    encoding.number(text_hash(block.name));
    encoding.number(block.elements);
    encoding.number(block.bytes);
  }
  const auto names = table_axis_names(t, number, shape.size());
  encoding.number(static_cast<std::uint8_t>(names.empty() ? 0 : 1));
  for (const std::uint32_t name : names) encoding.number(text_hash(name));
  for (const ChunkRecord& chunk : table_chunks(t, number)) encoding.number(chunk.hash);
  return encoding.hash();
}

class Digester {
 public:
  explicit Digester(const Tables& tables) : t_(tables), digests_(tables.nodes.size()) {}

  Result<std::vector<Hash128>> run() {
    // Each text and each tensor is hashed once: a hostile file may refer to a huge one from a
    // million nodes.
    texts_.reserve(t_.text_ends.size());
    for (std::uint32_t text = 0; text < t_.text_ends.size(); ++text) {
      texts_.push_back(hash128(as_bytes(table_text(t_, text))));
    }
    hash_tensors();
    label_ = t_.labels.size();
    dict_order_ = t_.dict_orders.size();
    // Children have higher numbers than their parents, so going down needs no recursion.
    for (auto index = static_cast<std::uint32_t>(t_.nodes.size()); index-- > 0;) {
      if (auto ok = encode(index); !ok) return propagate(ok);
      digests_[index] = encoding_.hash();
    }
    return std::move(digests_);
  }

 private:
  // Stores the hash of each tensor in the slot of the first node that names it, until that node
  // gets its digest. Nodes tied to it have theirs by then.
  void hash_tensors() {
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    first_nodes_.assign(t_.tensors.size(), kNone);
    for (std::uint32_t node = 0; node < t_.nodes.size(); ++node) {
      const Kind kind = node_kind(t_.nodes[node]);
      if (kind != Kind::kTensor && kind != Kind::kPlaceholder) continue;
      std::uint32_t& first = first_nodes_[t_.nodes[node].value];
      if (first != kNone) continue;
      first = node;
      digests_[node] = hash_tensor(t_, t_.nodes[node].value, encoding_,
                                   [&](std::uint32_t text) { return texts_[text]; });
    }
  }

  Result<void> encode(std::uint32_t index) {
    const NodeRecord& node = t_.nodes[index];
    encoding_.clear();
    encoding_.number(node.kind);
    encode_label(index);
    switch (node_kind(node)) {
      case Kind::kNull:
        break;
      case Kind::kBool:
        encoding_.number(static_cast<std::uint8_t>(node.value));
        break;
      case Kind::kInt64:
      case Kind::kFloat64:
        encoding_.number(t_.words[node.value]);
        break;
      case Kind::kComplex128:
        encoding_.number(t_.words[node.value]);
        encoding_.number(t_.words[node.value + 1]);
        break;
      case Kind::kString:
        encoding_.number(texts_[node.value]);
        break;
      case Kind::kBigInt:
      case Kind::kBytes:
        encoding_.sized(t_.bytes.subspan(node.value, node.count));
        break;
      case Kind::kDict:
      case Kind::kRecord:
        encode_keyed(index, node);
        break;
      case Kind::kList:
      case Kind::kTuple:
        encoding_.number(node.count);
        encoding_.raw(digests_.data() + node.value, node.count * sizeof(Hash128));
        break;
      case Kind::kSet:
        return encode_set(index, node);
      case Kind::kTensor:
      case Kind::kPlaceholder:
        encoding_.number(digests_[first_nodes_[node.value]]);
        break;
    }
    return {};
  }

  // Nodes come in descending order, so these cursors move down tables sorted by node.
  void encode_label(std::uint32_t index) {
    if (label_ > 0 && t_.labels[label_ - 1].node == index) {
      encoding_.number(std::uint8_t{1});
      encoding_.number(texts_[t_.labels[--label_].text]);
    } else {
      encoding_.number(std::uint8_t{0});
    }
  }

  void encode_keyed(std::uint32_t index, const NodeRecord& node) {
    order_.resize(node.count);
    if (dict_order_ > 0 && t_.dict_orders[dict_order_ - 1].node == index) {
      const auto order = t_.order.subspan(t_.dict_orders[--dict_order_].first, node.count);
      std::copy(order.begin(), order.end(), order_.begin());
    } else {
      std::iota(order_.begin(), order_.end(), 0u);
      if (node.count <= kSmallDict) {
        const auto children = t_.nodes.subspan(node.value, node.count);
        // Few enough to be sorted in place, without extra memory.
        for (std::size_t i = 1; i < order_.size(); ++i) {
          for (std::size_t j = i;
               j > 0 && key_less(t_, children[order_[j]], children[order_[j - 1]]); --j) {
            std::swap(order_[j], order_[j - 1]);
          }
        }
      }
    }
    encoding_.number(node.count);
    for (const std::uint32_t position : order_) {
      const NodeRecord& child = t_.nodes[node.value + position];
      encoding_.number(child.key_kind);
      if (child.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
        encoding_.number(t_.words[child.key]);
      } else {
        encoding_.number(texts_[child.key]);
      }
      encoding_.number(digests_[node.value + position]);
    }
  }

  Result<void> encode_set(std::uint32_t index, const NodeRecord& node) {
    const auto children = std::span<const Hash128>(digests_).subspan(node.value, node.count);
    std::vector<Hash128> elements(children.begin(), children.end());
    merge_sort_runs(elements, bytes_less);
    if (std::adjacent_find(elements.begin(), elements.end()) != elements.end()) {
      return fail(ErrorCode::kTreeInvalid, "a set holds the same element twice", Error::kNoOffset,
                  find_path(t_, index));
    }
    encoding_.number(node.count);
    encoding_.raw(elements.data(), elements.size() * sizeof(Hash128));
    return {};
  }

  const Tables& t_;
  std::vector<Hash128> digests_;
  std::vector<Hash128> texts_;
  std::vector<std::uint32_t> first_nodes_;  // by tensor
  std::vector<std::uint32_t> order_;
  Encoding encoding_;
  std::size_t label_ = 0;
  std::size_t dict_order_ = 0;
};

}  // namespace

Result<std::vector<Hash128>> node_digests(const Tables& tables) { return Digester(tables).run(); }

Hash128 tensor_digest(const Tables& tables, std::uint32_t tensor) {
  Encoding encoding;
  return hash_tensor(tables, tensor, encoding, [&](std::uint32_t text) {
    return hash128(as_bytes(table_text(tables, text)));
  });
}

}  // namespace espalier
