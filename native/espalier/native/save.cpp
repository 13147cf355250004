#include "espalier/native/save.h"

#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "espalier/native/file_sink.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/native/turns.h"
#include "espalier/write/writer.h"

namespace espalier {

Result<void> save(const std::filesystem::path& path, const Value& state,
                  const SaveOptions& options) try {
  auto writer =
      Writer::plan(state, options.metadata,
                   {.compression_level = options.compression_level, .limits = options.limits});
  if (!writer) return propagate(writer);
  // What is compressed has a length only when all is written.
  auto sink =
      FileSink::create(path, writer->is_compressed() ? 0 : writer->file_length(),
                       {.sync = options.sync, .replace = options.replace, .ops = options.ops});
  if (!sink) return propagate(sink);

  const std::uint64_t total = writer->file_length();
  std::mutex mutex;
  std::uint64_t done = 0;
  Turns turns;
  std::vector<Writer::Scratch> scratches(thread_count(options.threads));
  const auto write_piece = [&](unsigned worker, std::size_t i) -> Result<void> {
    // Only what is compressed has to wait for its place.
    std::optional<Turns::Turn> turn;
    if (writer->is_compressed()) turn.emplace(turns, i);
    // Hashing and writing one chunk right after the other finds it in the processor's cache.
    auto bytes = writer->make(i, scratches[worker]);
    if (!bytes) return propagate(bytes);
    Extent extent;
    const auto take_place = [&] { extent = writer->place(i); };
    if (!turn) {
      take_place();
    } else if (!turn->take(take_place)) {
      return fail(ErrorCode::kIncomplete, "the save was given up");  // for an error before this
    }
    if (auto ok = sink->write(extent.offset, *bytes); !ok) return ok;
    if (options.progress) {
      const std::lock_guard lock(mutex);
      done += writer->pieces()[i].length;
      options.progress(done, total);
    }
    return {};
  };
  auto written = parallel_for(writer->pieces().size(), options.threads, write_piece);
  if (!written) return written;

  auto front = writer->finish();
  if (!front) return propagate(front);
  if (auto ok = sink->write(kHeaderBytes, front->index); !ok) return ok;
  // Last of all: a file without a header is visibly unfinished.
  if (auto ok = sink->write(0, front->header); !ok) return ok;
  if (options.progress) options.progress(total, total);
  return sink->commit();
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
