// Everything that a file holds, as convert and merge take it.
#ifndef ESPALIER_CLI_OPENING_CONTENT_H_
#define ESPALIER_CLI_OPENING_CONTENT_H_

#include <string>

#include "cli/opening/command.h"
#include "espalier/checkpoint_file.h"
#include "espalier/value.h"

namespace espalier::cli {

/// What becomes of the tree that a safetensors file carries in its metadata.
enum class CarriedTree : std::uint8_t { kRestore, kLeave };

/// A file's state and metadata. Tensors are read from `file` when they are written.
struct Content {
  CheckpointFile file;
  Value state;
  Value metadata;
  /// Whether a carried tree was restored.
  bool was_carried = false;
};

/// Opens a file and makes its content. Ignores --nest if a carried tree is restored, because the
/// tree refers to the names as they are stored. With `check`, reads every byte of a file first, but
/// not of a URL, and fails on the first damage. Errors of the tensors' producers have the name as
/// Error::file.
tl::expected<Content, Failure> read_content(const std::string& name, const CommonOptions& options,
                                            CarriedTree carried, bool check);

/// Keeps the header of a safetensors file in the metadata of `content`, unless it is the one that
/// would be written on the way back anyway. Does nothing for other formats.
[[nodiscard]] Result<void> keep_foreign_header(Content& content);

/// The end of messages about a carried tree that cannot be restored.
inline constexpr const char* kTreeHint = "; --flat takes the tensors without the carried tree";

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_CONTENT_H_
