// The file .metadata of a checkpoint of torch.distributed.checkpoint: a pickle that says which
// tensors there are, how each was cut, and where the pieces lie.
//
// Nothing in it is believed: what it says of a piece is compared with the piece.
#ifndef ESPALIER_FOREIGN_DCP_METADATA_H_
#define ESPALIER_FOREIGN_DCP_METADATA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/pickle/pickle_graph.h"
#include "espalier/foreign/torch/torch_types.h"
#include "espalier/key_path.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// Whether a file that begins with `front` is such a pickle.
bool looks_like_dcp(ByteSpan front, std::uint64_t file_size);

/// A value that was written by itself: the bytes of torch.save().
struct DcpItem {
  std::uint32_t file = 0;  // position in DcpMetadata::files
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  /// What was done to the bytes, such as compression: its name. Empty for nothing.
  std::string_view transform = {};
};

/// A part of a tensor.
struct DcpBox {
  /// Where in DcpMetadata::numbers its offset in the tensor stands, and after it its size: a number
  /// for each axis.
  std::size_t first = 0;
  std::optional<std::uint32_t> item = std::nullopt;
};

/// A key on a path of the tree: an integer, or the number of a text in DcpMetadata::names.
struct DcpKey {
  bool is_int = false;
  std::int64_t value = 0;
};

/// A name, and the tensor or value that was saved under it.
struct DcpEntry {
  std::uint32_t name = 0;  // in DcpMetadata::names
  /// Where in DcpMetadata::keys its path stands.
  std::size_t first_key = 0;
  std::size_t key_count = 0;

  bool is_tensor = false;
  // Of a tensor.
  std::optional<TorchElement> element = std::nullopt;  // none for an unknown dtype
  std::vector<std::uint64_t> shape = {};               // as torch counts it
  std::vector<DcpBox> boxes = {};
  // Of a value.
  std::optional<std::uint32_t> item = std::nullopt;
};

/// What the file says. Texts are those of the pickle, and valid as long as its bytes.
struct DcpMetadata {
  /// Sorted as people sort them, so that __2_0.distcp stands before __10_0.distcp. All are plain
  /// names.
  std::vector<std::string_view> files = {};
  std::vector<DcpItem> items = {};
  /// In the order of the file.
  std::vector<DcpEntry> entries = {};
  std::vector<std::uint64_t> numbers = {};
  std::vector<DcpKey> keys = {};
  /// All different.
  std::vector<std::string_view> names = {};

  std::optional<std::string_view> version = std::nullopt;
  std::optional<std::string> checkpoint_id = std::nullopt;
  std::optional<std::string_view> save_id = std::nullopt;
  std::vector<std::string_view> modules = {};

  /// What loading the pickle would call and is not data, if anything: "posix.system and 2 more".
  std::optional<std::string> calls = std::nullopt;

  KeyView key(const DcpKey& key) const {
    return key.is_int ? KeyView::of(key.value)
                      : KeyView::of(names[static_cast<std::size_t>(key.value)]);
  }
  std::span<const DcpKey> path(const DcpEntry& entry) const {
    return std::span(keys).subspan(entry.first_key, entry.key_count);
  }
  std::span<const std::uint64_t> offsets(const DcpEntry& entry, const DcpBox& box) const {
    return std::span(numbers).subspan(box.first, entry.shape.size());
  }
  std::span<const std::uint64_t> sizes(const DcpEntry& entry, const DcpBox& box) const {
    return std::span(numbers).subspan(box.first + entry.shape.size(), entry.shape.size());
  }
};

/// Reads the pickle that is all of `bytes`. `notes` gets what the file says and the checkpoint does
/// not keep. kForeignInvalid for what torch does not write, and for a file with a path in place of
/// a name; kTrailingBytes, kTruncated; kLimitExceeded.
[[nodiscard]] Result<DcpMetadata> read_dcp_metadata(ByteSpan bytes, const Limits& limits,
                                                    Notes& notes);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_DCP_METADATA_H_
