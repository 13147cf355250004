#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/tree/convert_elements.h"
#include "files/open/reading.h"
#include "files/os/parallel.h"

namespace espalier {
namespace {

// Whole chunks, and whole elements, also of 6 bits.
constexpr std::uint64_t kConvertedBytes = 3 * kChunkBytes;

}  // namespace

// A part at a time, so that the memory for bytes that are not yet converted does not grow with the
// tensor.
Result<void> CheckpointFile::convert_all(std::span<const Conversion> conversions,
                                         Read& read) const {
  struct Stretch {
    const Conversion* of;
    std::uint64_t begin;  // in bytes of the tensor
  };
  std::vector<Stretch> parts;
  for (const Conversion& each : conversions) {
    for (std::uint64_t begin = 0; begin < each.tensor.bytes(); begin += kConvertedBytes) {
      parts.push_back({&each, begin});
    }
  }
  struct Worker {
    ChunkBuffer buffer;
    std::vector<std::byte> packed;
  };
  std::vector<Worker> workers(thread_count(options_.threads));
  return parallel_for(
      parts.size(), options_.threads, [&](unsigned number, std::size_t i) -> Result<void> {
        const auto& [tensor, dtype, out] = *parts[i].of;
        const std::uint64_t begin = parts[i].begin;
        const std::uint64_t length = std::min(kConvertedBytes, tensor.bytes() - begin);
        return read.chunk(
            length, [&, &tensor = tensor, dtype = dtype, out = out]() -> Result<void> {
              Worker& worker = workers[number];
              worker.packed.resize(static_cast<std::size_t>(length));
              auto ok = read_range(tensor, begin, worker.packed, worker.buffer);
              if (!ok) return ok;
              const std::uint64_t bits = dtype_bits(tensor.dtype());
              const std::uint64_t first = begin / bits * 8;  // The parts are whole elements.
              const std::uint64_t width = dtype_bits(dtype) / 8;
              const std::uint64_t count = length * 8 / bits;
              ok = convert_elements(tensor.dtype(), worker.packed, dtype,
                                    out.subspan(static_cast<std::size_t>(first * width),
                                                static_cast<std::size_t>(count * width)),
                                    first);
              if (!ok && ok.error().path.empty()) ok.error().path = tensor_path(tensor);
              return ok;
            });
      });
}

}  // namespace espalier
