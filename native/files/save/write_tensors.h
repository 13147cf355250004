// Writes a file of some first bytes and then the bytes of tensors as they are, without compression.
#ifndef ESPALIER_FILES_SAVE_WRITE_TENSORS_H_
#define ESPALIER_FILES_SAVE_WRITE_TENSORS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/save.h"
#include "espalier/value.h"

namespace espalier {

/// A tensor's bytes, and where they go in the file.
struct TensorPlace {
  /// For errors of the tensor's producer that name no path.
  std::string_view name;
  const TensorData* data = nullptr;
  Extent extent;
};

/// Writes such a file of `file_length` bytes at `path`, as write_file() does. `front` is written
/// last. `data` must outlive the call.
[[nodiscard]] Result<void> write_tensors(const std::filesystem::path& path, ByteSpan front,
                                         std::span<const TensorPlace> tensors,
                                         std::uint64_t file_length, const SaveOptions& options);
/// The same to a sink of the caller.
[[nodiscard]] Result<void> write_tensors(Sink& sink, ByteSpan front,
                                         std::span<const TensorPlace> tensors,
                                         std::uint64_t file_length, const SaveOptions& options);

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_WRITE_TENSORS_H_
