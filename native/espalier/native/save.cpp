#include "espalier/native/save.h"

#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "espalier/native/file_sink.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/write/writer.h"

namespace espalier {

Result<void> save(const std::filesystem::path& path, const Value& state,
                  const SaveOptions& options) try {
  auto writer = Writer::plan(state, options.metadata, options.limits);
  if (!writer) return propagate(writer);
  auto sink =
      FileSink::create(path, writer->file_length(),
                       {.sync = options.sync, .replace = options.replace, .ops = options.ops});
  if (!sink) return propagate(sink);

  std::mutex mutex;
  std::uint64_t done = 0;
  std::vector<std::vector<std::byte>> scratch(thread_count(options.threads));
  auto written = parallel_for(writer->pieces().size(), options.threads,
                              [&](unsigned worker, std::size_t i) -> Result<void> {
                                // Hashing and writing one chunk right after the other finds it in
                                // the processor's cache.
                                if (scratch[worker].empty())
                                  scratch[worker].resize(Writer::kPieceBytes);
                                auto bytes = writer->make(i, scratch[worker]);
                                if (!bytes) return propagate(bytes);
                                const Extent& extent = writer->pieces()[i].extent;
                                if (auto ok = sink->write(extent.offset, *bytes); !ok) return ok;
                                if (options.progress) {
                                  const std::lock_guard lock(mutex);
                                  done += extent.length;
                                  options.progress(done, writer->file_length());
                                }
                                return {};
                              });
  if (!written) return written;

  auto front = writer->finish();
  if (!front) return propagate(front);
  if (auto ok = sink->write(kHeaderBytes, front->index); !ok) return ok;
  // Last of all: a file without a header is visibly unfinished.
  if (auto ok = sink->write(0, front->header); !ok) return ok;
  if (options.progress) options.progress(writer->file_length(), writer->file_length());
  return sink->commit();
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
