// The decoder's input: converts the library's types to the records of abi.h, and back.
#ifndef ESPALIER_WASM_TASK_H_
#define ESPALIER_WASM_TASK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "abi.h"

#include "espalier/codec/chunk_gate.h"
#include "espalier/detail/catalog.h"
#include "espalier/read/strided_copy.h"

namespace espalier::abi {

static_assert(sizeof(ChunkTask) == 48 && offsetof(ChunkTask, bases) == 40);
static_assert(sizeof(BaseTask) == 24);

inline ChunkTask task_of(std::uint64_t begin, const StoredChunk& chunk) {
  ChunkTask task = {};
  task.begin = begin;
  task.stored = chunk.stored;
  task.length = chunk.length;
  task.codec = static_cast<std::uint8_t>(chunk.codec);
  task.width = chunk.layout.width;
  task.is_float = chunk.layout.is_float ? 1 : 0;
  task.has_hash = chunk.hash ? 1 : 0;
  task.number[0] = chunk.form.width;
  task.number[1] = chunk.form.is_swapped ? 1 : 0;
  task.number[2] = static_cast<std::uint8_t>(chunk.form.negation);
  task.number[3] = chunk.form.is_conjugated ? 1 : 0;
  if (chunk.hash) std::memcpy(task.hash, &*chunk.hash, sizeof task.hash);
  task.bases = static_cast<std::uint32_t>(chunk.bases.size());
  return task;
}

inline PlannedBase planned_base(const ChunkRecord& record) {
  PlannedBase base = {};
  base.stored.offset = record.offset;
  base.stored.length = record.stored;
  base.stored.file = record.file;
  std::memcpy(base.task.hash, &record.hash, sizeof base.task.hash);
  base.task.stored = record.stored;
  base.task.codec = record.codec;
  return base;
}

/// The chunk of a task; `bases` are those of a patch.
inline StoredChunk stored_chunk(const ChunkTask& task, const BaseTask* bases) {
  StoredChunk chunk = {
      .codec = static_cast<Codec>(task.codec),
      .layout = {task.width, task.is_float != 0},
      .form = {task.number[0], task.number[1] != 0,
               static_cast<NumberForm::Negation>(task.number[2]), task.number[3] != 0},
      .stored = task.stored,
      .length = task.length};
  if (task.has_hash != 0) std::memcpy(&chunk.hash.emplace(), task.hash, sizeof task.hash);
  for (const BaseTask& base : std::span(bases, task.bases)) {
    StoredBase added = {static_cast<Codec>(base.codec), base.stored};
    std::memcpy(&added.hash, base.hash, sizeof base.hash);
    chunk.bases.push_back(added);
  }
  return chunk;
}

/// The stored bytes of a chunk or region, which has `first` bytes, and of bases, one after the
/// other. What is missing at the end is found to be too short.
inline std::vector<ByteSpan> layers_of(ByteSpan stored, std::uint64_t first,
                                       std::span<const StoredBase> bases) {
  // Without bases, the whole of it, so that a wrong length shows.
  if (bases.empty()) return {stored};
  std::vector<ByteSpan> layers;
  const auto take = [&](std::uint64_t length) {
    const ByteSpan layer =
        stored.first(static_cast<std::size_t>(std::min<std::uint64_t>(length, stored.size())));
    layers.push_back(layer);
    stored = stored.subspan(layer.size());
  };
  take(first);
  for (const StoredBase& base : bases) take(base.stored);
  return layers;
}

/// Bits of a unit, base and run, and then each loop.
inline std::vector<std::uint64_t> copy_words(const StridedCopy& copy) {
  std::vector<std::uint64_t> words = {copy.is_bytewise() ? 8u : 1u, copy.base(), copy.run()};
  for (const CopyLoop& loop : copy.loops())
    words.insert(words.end(), {loop.count, loop.from, loop.to});
  return words;
}

inline StridedCopy copy_of(std::span<const std::uint64_t> words) {
  std::vector<CopyLoop> loops;
  for (std::size_t i = 3; i + 3 <= words.size(); i += 3) {
    loops.push_back({words[i], words[i + 1], words[i + 2]});
  }
  return {static_cast<std::uint32_t>(words[0]), words[1], words[2], std::move(loops)};
}

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_TASK_H_
