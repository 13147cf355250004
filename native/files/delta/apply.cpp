#include "files/delta/apply.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/codec/hash.h"
#include "espalier/dtype.h"
#include "espalier/format/access.h"
#include "espalier/format/element_layout.h"
#include "files/os/out_of_memory.h"

namespace espalier {
namespace {

// Unchanged elements are skipped by so many bytes; a multiple of every width.
constexpr std::size_t kComparedBytes = 64;

// Appends the positions and values of the elements of `now` that differ from those of `before`, as
// long as both take less than all of `now`. Returns whether they do.
bool collect_changes(std::size_t width, ByteSpan before, ByteSpan now,
                     std::vector<std::uint32_t>& positions, std::vector<std::byte>& values) {
  const std::size_t most = now.size() / (sizeof(std::uint32_t) + width);
  for (std::size_t begin = 0; begin < now.size(); begin += kComparedBytes) {
    const std::size_t length = std::min(kComparedBytes, now.size() - begin);
    if (std::memcmp(before.data() + begin, now.data() + begin, length) == 0) continue;
    for (std::size_t i = begin; i < begin + length; i += width) {
      if (std::memcmp(before.data() + i, now.data() + i, width) == 0) continue;
      positions.push_back(static_cast<std::uint32_t>(i / width));
      values.insert(values.end(), now.data() + i, now.data() + i + width);
    }
    if (positions.size() > most) return false;
  }
  return true;
}

template <std::size_t kWidth>
void scatter(std::byte* chunk, std::span<const std::uint32_t> positions,
             const std::byte* values) noexcept {
  for (const std::uint32_t position : positions) {
    std::memcpy(chunk + std::size_t{position} * kWidth, values, kWidth);
    values += kWidth;
  }
}

void scatter(std::size_t width, std::byte* chunk, std::span<const std::uint32_t> positions,
             const std::byte* values) noexcept {
  switch (width) {
    case 1:
      return scatter<1>(chunk, positions, values);
    case 2:
      return scatter<2>(chunk, positions, values);
    case 4:
      return scatter<4>(chunk, positions, values);
    default:
      return scatter<8>(chunk, positions, values);
  }
}

Result<void> check_memory(const LiveTensor& live) {
  const auto refuse = [&](ErrorCode code, std::string_view what) {
    return fail(code, what, Error::kNoOffset, tensor_path(live.tensor));
  };
  if (live.tensor.is_placeholder()) {
    return refuse(ErrorCode::kWrongKind, "a placeholder has no bytes to apply");
  }
  if (live.bytes.size() == live.tensor.bytes()) return {};
  return refuse(ErrorCode::kInvalidArgument,
                "the tensor has " + counted(live.tensor.bytes(), "byte") + " and the memory " +
                    std::to_string(live.bytes.size()));
}

// The tensors to prepare: each memory once. Two changes of the same bytes would undo each other.
Result<std::vector<LiveTensor>> distinct(std::span<const LiveTensor> live) {
  std::vector<LiveTensor> sorted;
  for (const LiveTensor& each : live) {
    if (auto ok = check_memory(each); !ok) return propagate(ok);
    if (!each.bytes.empty()) sorted.push_back(each);
  }
  const std::less<const std::byte*> before;  // of pointers into different arrays, too
  std::stable_sort(sorted.begin(), sorted.end(), [&](const LiveTensor& a, const LiveTensor& b) {
    return before(a.bytes.data(), b.bytes.data());
  });
  std::vector<LiveTensor> kept;
  for (const LiveTensor& each : sorted) {
    if (!kept.empty()) {
      const LiveTensor& last = kept.back();
      const bool is_same = last.tensor == each.tensor && last.bytes.data() == each.bytes.data();
      if (is_same) continue;
      if (before(each.bytes.data(), last.bytes.data() + last.bytes.size())) {
        return fail(ErrorCode::kInvalidArgument,
                    "its memory overlaps that of " + tensor_path(last.tensor) +
                        ", which is another tensor; give each its own",
                    Error::kNoOffset, tensor_path(each.tensor));
      }
    }
    kept.push_back(each);
  }
  return kept;
}

}  // namespace

class PreparedUpdate::Preparation {
 public:
  Preparation(const CheckpointFile& file, const ApplyOptions& options)
      : file_(file), options_(options) {}

  Result<PreparedUpdate> run(std::span<const LiveTensor> live) {
    auto tensors = distinct(live);
    if (!tensors) return propagate(tensors);
    struct Place {
      const LiveTensor* of;
      std::uint32_t chunk;
    };
    std::vector<Place> places;
    std::uint64_t total = 0;
    for (const LiveTensor& each : *tensors) {
      total += each.bytes.size();
      for (std::uint32_t i = 0; i < each.tensor.chunk_count(); ++i) places.push_back({&each, i});
    }
    std::vector<Worker> workers(thread_count(options_.threads));
    std::vector<std::optional<Change>> changes(places.size());
    std::mutex mutex;
    std::uint64_t done = 0;
    auto ok = parallel_for(
        places.size(), options_.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
          if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
            return fail(ErrorCode::kCancelled, "the update was cancelled");
          }
          const auto& [of, chunk] = places[i];
          const MutableByteSpan bytes =
              of->bytes.subspan(static_cast<std::size_t>(chunk * kChunkBytes),
                                static_cast<std::size_t>(chunk_length(of->bytes.size(), chunk)));
          auto change = prepare(of->tensor, chunk, bytes, workers[worker]);
          if (!change) return propagate(change);
          changes[i] = std::move(*change);
          if (!options_.progress) return {};
          const std::lock_guard lock(mutex);
          done += bytes.size();
          options_.progress(done, total);
          return {};
        });
    if (!ok) return propagate(ok);
    PreparedUpdate update;
    for (const Worker& worker : workers) update.counts_.read += worker.read;
    update.counts_.chunks = places.size();
    for (auto& change : changes) {
      if (!change) {
        ++update.counts_.unchanged;
        continue;
      }
      update.counts_.changed_bytes += change->values.size();
      update.changes_.push_back(std::move(*change));
    }
    update.counts_.patched = update.counts_.chunks - update.counts_.unchanged - update.counts_.read;
    return update;
  }

 private:
  struct Worker {
    CheckpointFile::ChunkBuffer buffer;
    std::vector<std::byte> chunk;
    std::vector<std::uint32_t> positions;
    std::vector<std::byte> values;
    std::uint64_t read = 0;
  };

  // Nothing for a chunk that is up to date.
  Result<std::optional<Change>> prepare(const TensorRef& tensor, std::uint32_t i,
                                        MutableByteSpan live, Worker& worker) const {
    const ChunkRecord& record = tensor.catalog().tables().chunks[tensor.first_chunk() + i];
    const Hash128 hash = hash128(live);
    if (hash == record.hash) return std::optional<Change>();
    const auto bases = tensor.bases(i);
    const auto base = std::find_if(bases.begin(), bases.end(),
                                   [&](const ChunkRecord& each) { return each.hash == hash; });
    if (base != bases.end()) {
      worker.chunk.assign(live.begin(), live.end());
      auto ok = file_.patch_chunk(tensor, i, static_cast<std::size_t>(base - bases.begin()),
                                  worker.chunk, worker.buffer);
      if (!ok) return propagate(ok);
      return make_change(tensor, live, worker.chunk, worker);
    }
    const bool is_stored_here = record.file == 0 && bases.empty();
    if (!is_stored_here && !options_.read_others) {
      return fail(ErrorCode::kBaseMismatch,
                  "the tensor in memory is neither at the state of the checkpoint nor at one that "
                  "it has patches for (its MiB number " +
                      std::to_string(i) +
                      "): it is of another step, or was changed; apply the steps in between, have "
                      "other chunks read whole, or load the checkpoint",
                  Error::kNoOffset, tensor_path(tensor));
    }
    const auto bytes = file_.read_chunk(tensor, i, worker.buffer);
    if (!bytes) return propagate(bytes);
    ++worker.read;
    return make_change(tensor, live, *bytes, worker);
  }

  static std::optional<Change> make_change(const TensorRef& tensor, MutableByteSpan live,
                                           ByteSpan now, Worker& worker) {
    const std::size_t width = element_layout(tensor.dtype()).width;
    worker.positions.clear();
    worker.values.clear();
    if (collect_changes(width, live, now, worker.positions, worker.values)) {
      return Change{live.data(), width, worker.positions, worker.values};
    }
    return Change{live.data(), width, {}, {now.begin(), now.end()}};
  }

  const CheckpointFile& file_;
  const ApplyOptions& options_;
};

Result<PreparedUpdate> PreparedUpdate::prepare(const CheckpointFile& file,
                                               std::span<const LiveTensor> live,
                                               const ApplyOptions& options) try {
  if (!file.checkpoint().catalog().has_hashes()) {
    return fail(ErrorCode::kInvalidArgument,
                "the checkpoint has no hashes, so nothing tells what the tensors in memory hold; "
                "load it, or seal it with espalier index");
  }
  return Preparation(file, options).run(live);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

void PreparedUpdate::commit() noexcept {
  for (const Change& change : changes_) {
    if (change.positions.empty()) {
      std::memcpy(change.chunk, change.values.data(), change.values.size());
    } else {
      scatter(change.width, change.chunk, change.positions, change.values.data());
    }
  }
  changes_.clear();
}

}  // namespace espalier
