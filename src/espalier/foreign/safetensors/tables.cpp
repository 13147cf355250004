#include "espalier/foreign/safetensors/tables.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/foreign/safetensors/dtype.h"
#include "espalier/format/shape.h"
#include "espalier/tree/key_path.h"
#include "espalier/tree/kind.h"

namespace espalier {
namespace {

class Builder {
 public:
  Builder(SafetensorsHeader& header, const char* json, std::uint64_t header_length,
          std::uint64_t file_length, const Limits& limits)
      : header_(header),
        json_(json),
        data_begin_(kSafetensorsLengthBytes + header_length),
        file_length_(file_length),
        limits_(limits) {}

  Result<OwnedTables> run() {
    sort_tensors();
    if (auto ok = check_buffer(); !ok) return propagate(ok);
    if (auto ok = add_texts(); !ok) return propagate(ok);
    add_nodes();
    add_dict_order(kStateRoot, 0, tensor_count());
    add_dict_order(kMetadataRoot, tensor_count(), metadata_count());
    add_tensors();
    return std::move(tables_);
  }

 private:
  // Counts fit: each tensor or pair takes several of a header's less than 2^32 bytes.
  std::uint32_t tensor_count() const { return static_cast<std::uint32_t>(header_.tensors.size()); }
  std::uint32_t metadata_count() const {
    return static_cast<std::uint32_t>(header_.metadata.size());
  }

  std::uint64_t offset_of(std::string_view name) const {
    return kSafetensorsLengthBytes + static_cast<std::uint64_t>(name.data() - json_);
  }

  tl::unexpected<Error> bad(const SafetensorsEntry& entry, std::string message,
                            ErrorCode code = ErrorCode::kSafetensorsInvalid) const {
    std::string path;
    append_path(path, KeyView::of(entry.name));
    return fail(code, std::move(message), offset_of(entry.name), std::move(path));
  }

  void sort_tensors() {
    merge_sort_runs(header_.tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
  }

  // In the order of the bytes, each tensor must begin where the one before it ended: a hole could
  // hide bytes (another file, even), an overlap could show the same bytes under two names.
  Result<void> check_buffer() const {
    const std::uint64_t buffer = file_length_ - data_begin_;
    std::uint64_t end = 0;
    std::uint64_t chunks = 0;
    for (const SafetensorsEntry& entry : header_.tensors) {
      if (entry.begin > entry.end) return bad(entry, "the tensor begins after its end");
      auto bytes = safetensors_tensor_bytes(entry.dtype, header_.shapes[entry.shape]);
      if (!bytes) return bad(entry, std::move(bytes.error().message));
      if (entry.end - entry.begin != *bytes) {
        return bad(entry, "data_offsets cover " + counted(entry.end - entry.begin, "byte") +
                              ", and dtype and shape need " + std::to_string(*bytes));
      }
      if (entry.begin != end) {
        return bad(entry, entry.begin > end ? "before the tensor is a hole of " +
                                                  counted(entry.begin - end, "byte")
                                            : "the tensor shares bytes with the one before it");
      }
      end = entry.end;
      // So that a tiny file that claims to go on for petabytes is refused here, and not when memory
      // for its chunk records runs out.
      if (end > buffer) {
        return bad(entry,
                   "the file ends " + counted(end - buffer, "byte") +
                       " before the tensor does; copy or download it again",
                   ErrorCode::kTruncated);
      }
      chunks += chunk_count(*bytes);
      if (chunks > limits_.index_bytes / sizeof(ChunkRecord)) {
        return bad(entry, "the file has more chunks than Limits::index_bytes has room for",
                   ErrorCode::kLimitExceeded);
      }
    }
    if (end != buffer) {
      return fail(
          ErrorCode::kTrailingBytes,
          "the file goes on for " + counted(buffer - end, "byte") + " after its last tensor",
          data_begin_ + end);
    }
    return {};
  }

  // All texts, sorted and each once. `users_` says which names, keys and values have which text:
  // first the names, then the keys, then the values.
  Result<void> add_texts() {
    struct Use {
      std::string_view text;
      std::uint32_t user = 0;
    };
    const std::uint32_t tensors = tensor_count();
    const std::uint32_t pairs = metadata_count();
    std::vector<Use> uses;
    uses.reserve(std::size_t{tensors} + 2 * std::size_t{pairs} + 1);
    const auto use = [&](std::string_view text) {
      uses.push_back({text, static_cast<std::uint32_t>(uses.size())});
    };
    for (const SafetensorsEntry& entry : header_.tensors) use(entry.name);
    for (const auto& pair : header_.metadata) use(pair.first);
    for (const auto& pair : header_.metadata) use(pair.second);
    const bool labelled = header_.has_metadata && pairs == 0;
    if (labelled) use(kEmptyMetadataLabel);
    // Stable, so that equal texts come in the order of their users.
    merge_sort_runs(uses, [](const Use& a, const Use& b) { return a.text < b.text; });

    std::size_t bytes = 0;
    for (const Use& item : uses) bytes += item.text.size();
    tables_.text.reserve(bytes);
    users_.resize(uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const auto& [text, user] = uses[i];
      if (i > 0 && uses[i - 1].text == text) {
        const std::uint32_t before = uses[i - 1].user;
        if (user < tensors) return bad(header_.tensors[user], "two tensors have the same name");
        if (before >= tensors && user < tensors + pairs) {
          return fail(ErrorCode::kSafetensorsInvalid, "__metadata__ has the same key twice",
                      offset_of(text));
        }
      } else {
        tables_.text.insert(tables_.text.end(), text.begin(), text.end());
        tables_.text_ends.push_back(static_cast<std::uint32_t>(tables_.text.size()));
      }
      users_[user] = static_cast<std::uint32_t>(tables_.text_ends.size() - 1);
    }
    if (labelled) tables_.labels.push_back({kMetadataRoot, users_.back()});
    return {};
  }

  void add_nodes() {
    const std::uint32_t tensors = tensor_count();
    const std::uint32_t pairs = metadata_count();
    constexpr auto number = [](auto kind) { return static_cast<std::uint8_t>(kind); };
    auto& nodes = tables_.nodes;
    nodes.reserve(2 + std::size_t{tensors} + pairs);
    nodes.push_back({.kind = number(Kind::kDict), .value = 2, .count = tensors});
    nodes.push_back({.kind = number(Kind::kDict), .value = 2 + tensors, .count = pairs});
    for (std::uint32_t i = 0; i < tensors; ++i) {
      nodes.push_back({.kind = number(Kind::kTensor),
                       .key_kind = number(KeyKind::kText),
                       .key = users_[i],
                       .value = i});
    }
    for (std::uint32_t i = 0; i < pairs; ++i) {
      nodes.push_back({.kind = number(Kind::kString),
                       .key_kind = number(KeyKind::kText),
                       .key = users_[tensors + i],
                       .value = users_[tensors + pairs + i]});
    }
  }

  // The order that a large dict needs if its keys, those of users `first` on, are not ascending.
  void add_dict_order(std::uint32_t node, std::uint32_t first, std::uint32_t count) {
    const auto keys = std::span<const std::uint32_t>(users_).subspan(first, count);
    if (count <= kSmallDict || std::is_sorted(keys.begin(), keys.end())) return;
    // Texts are sorted already: going through them in order gives the positions in order.
    constexpr std::uint32_t kNobody = ~std::uint32_t{0};
    std::vector<std::uint32_t> positions(tables_.text_ends.size(), kNobody);
    for (std::uint32_t i = 0; i < count; ++i) positions[keys[i]] = i;
    tables_.dict_orders.push_back({node, static_cast<std::uint32_t>(tables_.order.size())});
    for (const std::uint32_t position : positions) {
      if (position != kNobody) tables_.order.push_back(position);
    }
  }

  void add_tensors() {
    auto shapes = header_.shapes.canonical();
    tables_.shape_ends = std::move(shapes.ends);
    tables_.dims = std::move(shapes.dims);
    tables_.tensors.reserve(header_.tensors.size());
    tables_.chunks.reserve(header_.tensors.size());
    for (const SafetensorsEntry& entry : header_.tensors) {
      tables_.tensors.push_back({.dtype = static_cast<std::uint8_t>(entry.dtype),
                                 .shape = shapes.numbers[entry.shape],
                                 .first_chunk = static_cast<std::uint32_t>(tables_.chunks.size())});
      const std::uint64_t bytes = entry.end - entry.begin;
      for (std::uint64_t i = 0; i < chunk_count(bytes); ++i) {
        tables_.chunks.push_back({.offset = data_begin_ + entry.begin + i * kChunkBytes,
                                  .hash = {},
                                  .stored = static_cast<std::uint32_t>(chunk_length(bytes, i))});
      }
    }
  }

  SafetensorsHeader& header_;
  const char* json_;
  const std::uint64_t data_begin_;
  const std::uint64_t file_length_;
  const Limits& limits_;
  OwnedTables tables_;
  std::vector<std::uint32_t> users_;
};

}  // namespace

Result<OwnedTables> safetensors_tables(SafetensorsHeader& header, const char* json,
                                       std::uint64_t header_length, std::uint64_t file_length,
                                       const Limits& limits) {
  return Builder(header, json, header_length, file_length, limits).run();
}

}  // namespace espalier
