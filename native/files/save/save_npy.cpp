#include <array>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/codec/compression_level.h"
#include "espalier/dtype.h"
#include "espalier/foreign/numpy/npy_header.h"
#include "espalier/save_foreign.h"
#include "files/os/about_file.h"
#include "files/save/save_format.h"
#include "files/save/write_tensors.h"

namespace espalier {
namespace {

Result<void> check_options(const std::filesystem::path& path, SaveFormat format,
                           const SaveOptions& options) {
  if (options.check_ending) {
    if (auto ok = check_format_ending(path, format); !ok) return ok;
  }
  if (options.compression_level != kNoCompression) {
    return fail(ErrorCode::kInvalidArgument,
                "such files are never compressed; leave the level at 0, or save as Espalier");
  }
  if (options.metadata.kind() != Kind::kNull && !options.metadata.children().empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "such files hold no metadata; leave it out, or save as Espalier");
  }
  return {};
}

Result<std::uint64_t> check_data(const Tensor& tensor) {
  auto bytes = tensor_bytes(tensor.dtype, tensor.shape, tensor.block());
  if (!bytes) return fail(ErrorCode::kInvalidTree, std::move(bytes.error().message));
  if (tensor.data.is_placeholder()) {
    return fail(ErrorCode::kInvalidTree, "the tensor is a placeholder, so it has no data to save");
  }
  if (const auto memory = tensor.data.memory(); memory && memory->size() != *bytes) {
    return fail(ErrorCode::kInvalidTree, "the tensor's data has " +
                                             counted(memory->size(), "byte") +
                                             " and its shape needs " + std::to_string(*bytes));
  }
  return bytes;
}

Result<void> save_after(ByteSpan front, const std::filesystem::path& path, const Tensor& tensor,
                        const SaveOptions& options) {
  const auto bytes = check_data(tensor);
  if (!bytes) return propagate(bytes);
  const std::array places = {TensorPlace{{}, &tensor.data, {0, front.size(), *bytes}}};
  return write_tensors(path, front, places, front.size() + *bytes, options);
}

}  // namespace

Result<void> save_npy(const FilePath& path, const Tensor& tensor, const SaveOptions& options) {
  return about_file(path.text(), [&]() -> Result<void> {
    if (auto ok = check_options(path, SaveFormat::kNpy, options); !ok) return ok;
    const auto header = npy_header(tensor.dtype, tensor.shape);
    if (!header) return propagate(header);
    return save_after(*header, path, tensor, options);
  });
}

Result<void> save_raw(const FilePath& path, const Tensor& tensor, const SaveOptions& options) {
  return about_file(path.text(), [&]() -> Result<void> {
    if (auto ok = check_options(path, SaveFormat::kRaw, options); !ok) return ok;
    return save_after({}, path, tensor, options);
  });
}

}  // namespace espalier
