#include "files/delta/find_references.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/patch_encoder.h"
#include "espalier/delta/reference_finder.h"
#include "espalier/format/file_set.h"
#include "files/delta/reference_bases.h"

namespace espalier {
namespace {

// A chunk becomes a patch only if that takes at most this part of its smallest other form: a patch
// costs a read of its base each time.
constexpr std::size_t kMostOfChunk[] = {3, 4};
// Chunks of which a part of this size gains nothing are not tried as a whole.
constexpr std::size_t kTriedBytes = std::size_t{64} << 10;

std::size_t most_of(std::size_t bytes) { return bytes * kMostOfChunk[0] / kMostOfChunk[1]; }

// One per thread.
class FileHost : public FinderHost {
 public:
  FileHost(std::span<const SaveBase> bases, int compression_level)
      : bases_(bases), compression_level_(compression_level) {}

  Result<ByteSpan> read_chunk(std::size_t base, const TensorRef& tensor, std::uint32_t i) override {
    return bases_[base].file->read_chunk(tensor, i, buffer_);
  }

  Result<void> copy(const BaseExtent& from, MutableByteSpan out) override {
    return copy_of_base(bases_, from, out);
  }

  Result<Patch> make_patch(ByteSpan before, ByteSpan now, ElementLayout layout) override {
    if (!patches_) patches_.emplace();
    if (now.size() > 4 * kTriedBytes) {
      const std::size_t begin = now.size() / 2 / kTriedBytes * kTriedBytes;
      const ByteSpan part_before = before.subspan(begin, kTriedBytes);
      const ByteSpan part_now = now.subspan(begin, kTriedBytes);
      if (std::memcmp(part_before.data(), part_now.data(), kTriedBytes) != 0) {
        const auto part = patches_->encode(part_before, part_now, layout, most_of(kTriedBytes));
        if (!part) return propagate(part);
        if (!*part) return Patch();
      }
    }
    const auto patch = patches_->encode(before, now, layout, most_of(now.size()));
    if (!patch) return propagate(patch);
    if (!*patch) return Patch();
    const std::size_t size = (*patch)->size();
    // No need to try how small the chunk gets by itself if the patch is tiny.
    if (compression_level_ != kNoCompression && size > now.size() / 16) {
      if (!chunks_) chunks_.emplace(compression_level_);
      const auto by_itself = chunks_->encode(now, layout);
      if (!by_itself) return propagate(by_itself);
      if (size > most_of(by_itself->bytes.size())) return Patch();
    }
    return std::make_shared<const std::vector<std::byte>>((*patch)->begin(), (*patch)->end());
  }

 private:
  const std::span<const SaveBase> bases_;
  const int compression_level_;
  CheckpointFile::ChunkBuffer buffer_;
  std::optional<PatchEncoder> patches_;
  std::optional<ChunkEncoder> chunks_;
};

// Told of the bytes that are compared, by any thread.
class ComparedBytes {
 public:
  ComparedBytes(const ReferenceFinder& finder, const Progress& progress) : progress_(progress) {
    if (!progress_) return;
    for (std::size_t i = 0; i < finder.steps(); ++i) total_ += finder.step_bytes(i);
  }

  void add(std::uint64_t bytes) {
    if (!progress_ || bytes == 0) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    progress_(done_, total_);
  }

 private:
  const Progress& progress_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<References> find_references(const Value& state, std::span<const SaveBase> bases,
                                   const FindOptions& options) {
  if (bases.empty()) return References();
  ReferenceFinder finder(state, reference_bases(bases),
                         {.patches = options.patches,
                          .most_of_full = options.most_of_full,
                          .compression_level = options.compression_level});
  const unsigned threads = thread_count(options.threads);
  std::vector<FileHost> hosts;
  hosts.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) hosts.emplace_back(bases, options.compression_level);
  std::vector<ReferenceFinder::Scratch> scratches(threads);
  while (finder.next()) {
    ComparedBytes compared(finder, options.progress);
    // The other stages are not worth memory for each thread.
    const Threads of_stage = finder.is_comparing() ? options.threads : Threads{1};
    auto ok =
        parallel_for(finder.steps(), of_stage, [&](unsigned worker, std::size_t i) -> Result<void> {
          if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
            return fail(ErrorCode::kCancelled, "the save was cancelled");
          }
          if (auto done = finder.step(i, hosts[worker], scratches[worker]); !done) return done;
          compared.add(finder.step_bytes(i));
          return {};
        });
    if (!ok) return propagate(ok);
  }
  return finder.take();
}

Result<void> check_is_no_base(const std::filesystem::path& path, std::span<const SaveBase> bases) {
  if (bases.empty()) return {};
  std::error_code ignored;
  // A link leads to the file that is replaced.
  const std::string names[] = {
      path.filename().string(),
      std::filesystem::weakly_canonical(path, ignored).filename().string()};
  for (const SaveBase& base : bases) {
    for (const FileEntry& file : base.file->checkpoint().catalog().files()) {
      const std::string& name = file.name.empty() ? base.name : file.name;
      const bool is_named = std::find(std::begin(names), std::end(names), name) != std::end(names);
      // The base's name may be the link.
      if (!is_named && !std::filesystem::equivalent(path, path.parent_path() / name, ignored)) {
        continue;
      }
      return fail(ErrorCode::kInvalidArgument,
                  "the new file would replace one that it refers to; give it another name");
    }
  }
  return {};
}

}  // namespace espalier
