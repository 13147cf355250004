#include "espalier/foreign/safetensors/tables.h"

#include <string>
#include <string_view>
#include <tuple>

#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/dtype.h"
#include "espalier/foreign/safetensors/dtype.h"
#include "espalier/format/owned_tables.h"
#include "espalier/format/table_builder.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"

namespace espalier {
namespace {

class SafetensorsTables {
 public:
  SafetensorsTables(SafetensorsHeader& header, const char* json, std::uint64_t header_length,
                    std::uint64_t file_length, const Limits& limits)
      : header_(header),
        json_(json),
        data_begin_(kSafetensorsLengthBytes + header_length),
        file_length_(file_length),
        limits_(limits),
        builder_(limits) {}

  Result<OwnedTables> run() {
    sort_tensors();
    if (auto ok = check_buffer(); !ok) return propagate(ok);
    add_tree();
    auto tables = builder_.finish();
    if (!tables) return explain(tables);
    return tables;
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

  tl::unexpected<Error> bad(const SafetensorsEntry& entry, std::string_view message,
                            ErrorCode code = ErrorCode::kSafetensorsInvalid) const {
    std::string path;
    append_path(path, KeyView::of(entry.name), DigitMark::kNever);
    return fail(code, message, offset_of(entry.name), std::move(path));
  }

  void sort_tensors() {
    merge_sort_runs(header_.tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
  }

  // In the order of the bytes, each tensor must begin where the one before it ends: a gap could
  // hide bytes (even another file), an overlap could show the same bytes under two names.
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
        return bad(entry, entry.begin > end ? "before the tensor is a gap of " +
                                                  counted(entry.begin - end, "byte")
                                            : "the tensor shares bytes with the one before it");
      }
      end = entry.end;
      // Refuse a tiny file that claims petabytes here, before its chunk records exhaust memory.
      if (end > buffer) {
        return bad(entry,
                   "the file ends " + counted(end - buffer, "byte") +
                       " before the end of the tensor; copy or download it again",
                   ErrorCode::kTruncated);
      }
      chunks += chunk_count(*bytes);
      if (chunks > limits_.index_bytes / sizeof(ChunkRecord)) {
        return bad(entry, "the file has more chunks than fit in Limits::index_bytes",
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

  void add_tree() {
    builder_.reserve(2 + std::size_t{tensor_count()} + metadata_count(), tensor_count());
    builder_.container(Kind::kDict);
    if (header_.has_metadata && header_.metadata.empty()) builder_.label(kEmptyMetadataLabel);
    builder_.container(Kind::kDict);
    if (!builder_.open(kStateRoot, tensor_count())) return;
    for (const SafetensorsEntry& entry : header_.tensors) {
      builder_.key(KeyView::of(entry.name));
      builder_.tensor({entry.dtype, header_.shapes[entry.shape]});
      builder_.place(0, data_begin_ + entry.begin);
    }
    if (!builder_.open(kMetadataRoot, metadata_count())) return;
    for (const auto& [key, value] : header_.metadata) {
      builder_.key(KeyView::of(key));
      builder_.string(value);
    }
  }

  // Rewords `failed` in terms of the file, if it is about equal keys.
  tl::unexpected<Error> explain(Result<OwnedTables>& failed) const {
    const auto node = builder_.repeated_key();
    if (!node) return propagate(failed);
    const std::uint32_t child = *node - (kMetadataRoot + 1);
    if (child < tensor_count()) {
      return bad(header_.tensors[child], "two tensors have the same name");
    }
    return fail(ErrorCode::kSafetensorsInvalid, "__metadata__ has the same key twice",
                offset_of(header_.metadata[child - tensor_count()].first));
  }

  SafetensorsHeader& header_;
  const char* json_;
  const std::uint64_t data_begin_;
  const std::uint64_t file_length_;
  const Limits& limits_;
  TableBuilder builder_;
};

}  // namespace

Result<OwnedTables> safetensors_tables(SafetensorsHeader& header, const char* json,
                                       std::uint64_t header_length, std::uint64_t file_length,
                                       const Limits& limits) {
  return SafetensorsTables(header, json, header_length, file_length, limits).run();
}

}  // namespace espalier
