#include "espalier/native/write_tensors.h"

#include <algorithm>
#include <vector>

#include "espalier/format/tables.h"
#include "espalier/native/write_file.h"

namespace espalier {
namespace {

// The part of a tensor that one thread produces and writes at a time.
struct Part {
  const TensorPlace* tensor;
  std::uint64_t begin;
  std::uint64_t length;
};

std::vector<Part> divide(std::span<const TensorPlace> tensors) {
  std::vector<Part> parts;
  for (const TensorPlace& tensor : tensors) {
    for (std::uint64_t begin = 0; begin < tensor.extent.length; begin += kChunkBytes) {
      parts.push_back({&tensor, begin, std::min(kChunkBytes, tensor.extent.length - begin)});
    }
  }
  return parts;
}

}  // namespace

Result<void> write_tensors(const std::filesystem::path& path, ByteSpan front,
                           std::span<const TensorPlace> tensors, std::uint64_t file_length,
                           const SaveOptions& options) {
  const std::vector<Part> parts = divide(tensors);
  std::vector<std::vector<std::byte>> scratch(thread_count(options.threads));
  const auto make_piece = [&](unsigned worker, std::size_t i) -> Result<PlacedPiece> {
    const auto [tensor, begin, length] = parts[i];
    const std::uint64_t offset = tensor->extent.offset + begin;
    if (const auto memory = tensor->data->memory()) {
      return PlacedPiece{offset, memory->subspan(static_cast<std::size_t>(begin),
                                                 static_cast<std::size_t>(length))};
    }
    scratch[worker].resize(static_cast<std::size_t>(length));
    if (auto ok = tensor->data->read(begin, scratch[worker]); !ok) {
      if (ok.error().path.empty()) ok.error().path = tensor->name;
      return propagate(ok);
    }
    return PlacedPiece{offset, scratch[worker]};
  };
  return write_file(path,
                    {.reserved_bytes = file_length,
                     .total_bytes = file_length,
                     .pieces = parts.size(),
                     .piece_bytes = [&](std::size_t i) { return parts[i].length; },
                     .make_piece = make_piece,
                     .write_front = [&](const FileSink& sink) { return sink.write(0, front); }},
                    options);
}

}  // namespace espalier
