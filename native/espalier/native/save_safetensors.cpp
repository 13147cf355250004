#include "espalier/native/save_safetensors.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "espalier/format/tables.h"
#include "espalier/native/file_sink.h"
#include "espalier/native/out_of_memory.h"

namespace espalier {
namespace {

// Part of a tensor: what one thread produces and writes at a time.
struct Piece {
  const SafetensorsTensor* tensor;
  std::uint64_t begin;
  std::uint64_t length;
};

std::vector<Piece> divide(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<Piece> pieces;
  for (const SafetensorsTensor& tensor : tensors) {
    for (std::uint64_t begin = 0; begin < tensor.extent.length; begin += kChunkBytes) {
      pieces.push_back({&tensor, begin, std::min(kChunkBytes, tensor.extent.length - begin)});
    }
  }
  return pieces;
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
  auto sink =
      FileSink::create(path, plan->file_length,
                       {.sync = options.sync, .replace = options.replace, .ops = options.ops});
  if (!sink) return propagate(sink);

  const std::vector<Piece> pieces = divide(plan->tensors);
  std::mutex mutex;
  std::uint64_t done = 0;
  std::vector<std::vector<std::byte>> scratch(thread_count(options.threads));
  auto written = parallel_for(
      pieces.size(), options.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const auto [tensor, begin, length] = pieces[i];
        const std::uint64_t offset = tensor->extent.offset + begin;
        ByteSpan bytes;
        if (const auto memory = tensor->data.memory()) {
          bytes =
              memory->subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length));
        } else {
          scratch[worker].resize(static_cast<std::size_t>(length));
          if (auto ok = tensor->data.read(begin, scratch[worker]); !ok) {
            if (ok.error().path.empty()) ok.error().path = tensor->name;
            return ok;
          }
          bytes = scratch[worker];
        }
        if (auto ok = sink->write(offset, bytes); !ok) return ok;
        if (options.progress) {
          const std::lock_guard lock(mutex);
          done += length;
          options.progress(done, plan->file_length);
        }
        return {};
      });
  if (!written) return propagate(written);
  if (auto ok = sink->write(0, plan->header); !ok) return propagate(ok);
  if (auto ok = sink->commit(); !ok) return propagate(ok);
  return std::move(plan->dropped);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
