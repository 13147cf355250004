#include "espalier/native/save_safetensors.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "espalier/format/tables.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/native/write_file.h"

namespace espalier {
namespace {

// The part of a tensor that one thread produces and writes at a time.
struct Part {
  const SafetensorsTensor* tensor;
  std::uint64_t begin;
  std::uint64_t length;
};

std::vector<Part> divide(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<Part> parts;
  for (const SafetensorsTensor& tensor : tensors) {
    for (std::uint64_t begin = 0; begin < tensor.extent.length; begin += kChunkBytes) {
      parts.push_back({&tensor, begin, std::min(kChunkBytes, tensor.extent.length - begin)});
    }
  }
  return parts;
}

}  // namespace

Result<Losses> save_safetensors(const std::filesystem::path& path, const Value& state,
                                Unrepresentable unrepresentable, const SaveOptions& options) try {
  if (options.compression_level != kNoCompression) {
    return fail(
        ErrorCode::kInvalidArgument,
        "safetensors files are never compressed; leave the level at 0, or save as Espalier");
  }
  auto plan = plan_safetensors(state, options.metadata, {unrepresentable, options.limits});
  if (!plan) return propagate(plan);
  const std::vector<Part> parts = divide(plan->tensors);
  std::vector<std::vector<std::byte>> scratch(thread_count(options.threads));
  const auto make_piece = [&](unsigned worker, std::size_t i) -> Result<PlacedPiece> {
    const auto [tensor, begin, length] = parts[i];
    const std::uint64_t offset = tensor->extent.offset + begin;
    if (const auto memory = tensor->data.memory()) {
      return PlacedPiece{offset, memory->subspan(static_cast<std::size_t>(begin),
                                                 static_cast<std::size_t>(length))};
    }
    scratch[worker].resize(static_cast<std::size_t>(length));
    if (auto ok = tensor->data.read(begin, scratch[worker]); !ok) {
      if (ok.error().path.empty()) ok.error().path = tensor->name;
      return propagate(ok);
    }
    return PlacedPiece{offset, scratch[worker]};
  };
  auto written =
      write_file(path,
                 {.reserved_bytes = plan->file_length,
                  .total_bytes = plan->file_length,
                  .pieces = parts.size(),
                  .piece_bytes = [&](std::size_t i) { return parts[i].length; },
                  .make_piece = make_piece,
                  .write_front = [&](const FileSink& sink) { return sink.write(0, plan->header); }},
                 options);
  if (!written) return propagate(written);
  return std::move(plan->dropped);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
